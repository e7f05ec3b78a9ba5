"""Broker settings: topics, replication, ZooKeeper, the controller, quotas and metrics."""

from __future__ import annotations

from moldau.config.broker_settings.storage_settings import ONE_CHECKPOINT
from moldau.config.setting_definition import (
    DAY,
    KIB,
    MIB,
    MINUTE,
    SECOND,
    ClassName,
    Long,
    Names,
    Password,
    Scope,
    Settings,
    setting,
)
from moldau.config.value_checks import (
    CSV_REPORTER,
    JMX_REPORTER,
    host_and_port,
    http_address,
)

ZOOKEEPER_CLASS = "there are no Java classes; zookeeper.ssl.client.enable is enough"
NO_REVOCATION = "nobody would be asked, and a revoked certificate would do; leave it out"
POLICY_ASKED = "such a class cannot be loaded, so it could refuse nothing; leave it out"
QUOTA_ASKED = "such a class cannot be loaded, so it could slow nobody down; leave it out"
PROVIDER_ASKED = "no placeholder would be filled in; leave it out and write the values themselves"
NO_COPY_THROTTLE = "a copy between directories waits between its slices instead"
NO_METRICS = "counters and gauges are told as they are, Prometheus makes rates of them"
KERNEL_BUFFERS = "the kernel sizes the buffers of connections between brokers"
COPIES_IN_TURN = "copies between directories take turns, a slice at a time"
AS_THEY_COME = "requests to ZooKeeper are sent as they come, in order"
REPLACED = "Apache Kafka dropped it, and nothing here needs it"
KEY_FACTORIES = tuple(f"PBKDF2WithHmacSHA{bits}" for bits in (512, 384, 256, 224, 1))
CIPHERS = ("AES/CBC/PKCS5Padding", "AES/GCM/NoPadding")
KEY_BITS = (128, 192, 256)


def key_length_fault(bits: int) -> str | None:
    return None if bits in KEY_BITS else f"must be one of {', '.join(map(str, KEY_BITS))}"


# Rows stay compact, so that the table can be read as one.
# fmt: off


class ClusterSettings(Settings):
    # Topics
    num_partitions: int = setting(
        "num.partitions", 1, at_least=1,
        doc="Partitions of a topic for which nobody gave a number.")
    default_replication_factor: int = setting(
        "default.replication.factor", 1, at_least=1, aliases=("replication.factor",),
        doc="Replicas of a topic for which nobody gave a number.")
    auto_create_topics_enable: bool = setting(
        "auto.create.topics.enable", True,
        doc="Create a topic when a client first asks for it.")
    delete_topic_enable: bool = setting(
        "delete.topic.enable", True,
        doc="Whether topics can be deleted at all.")
    create_topic_policy_class_name: ClassName | None = setting(
        "create.topic.policy.class.name", refused=POLICY_ASKED,
        doc="Class that may refuse the creation of a topic.")
    alter_config_policy_class_name: ClassName | None = setting(
        "alter.config.policy.class.name", refused=POLICY_ASKED,
        doc="Class that may refuse a change of configuration.")

    # Replication
    min_insync_replicas: int = setting(
        "min.insync.replicas", 1, at_least=1, scope=Scope.CLUSTER,
        doc="With acks=all, refuse writes while fewer replicas than this are in sync.")
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable", False, scope=Scope.CLUSTER,
        doc="Let a replica that lags behind become leader when no other is left: the topic stays "
            "available and loses records.")
    replica_lag_time_max_ms: Long = setting(
        "replica.lag.time.max.ms", 30 * SECOND,
        doc="A follower that has not caught up with its leader for this long leaves the ISR.")
    replica_fetch_max_bytes: int = setting(
        "replica.fetch.max.bytes", 1 * MIB, at_least=0, aliases=("replca.fetch.max.bytes",),
        doc="Bytes a follower asks for per partition; a larger first batch still comes whole.")
    replica_fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes", 10 * MIB, at_least=0,
        doc="Bytes a follower asks for in all; a larger first batch still comes whole.")
    replica_fetch_min_bytes: int = setting(
        "replica.fetch.min.bytes", 1,
        doc="The leader answers a follower once this many bytes are there.")
    replica_fetch_wait_max_ms: int = setting(
        "replica.fetch.wait.max.ms", 500,
        doc="The leader answers a follower after this time at the latest; keep it below "
            "replica.lag.time.max.ms.")
    replica_fetch_backoff_ms: int = setting(
        "replica.fetch.backoff.ms", 1 * SECOND, at_least=0,
        doc="How long a follower leaves a partition alone after an error.")
    replica_socket_timeout_ms: int = setting(
        "replica.socket.timeout.ms", 30 * SECOND,
        doc="How long a follower waits for its leader's answer.")
    replica_socket_receive_buffer_bytes: int = setting(
        "replica.socket.receive.buffer.bytes", 64 * KIB, at_least=-1, no_effect=KERNEL_BUFFERS,
        doc="Receive buffer of a follower's connection; -1 leaves it to the kernel.")
    replica_high_watermark_checkpoint_interval_ms: Long = setting(
        "replica.high.watermark.checkpoint.interval.ms", 5 * SECOND, no_effect=ONE_CHECKPOINT,
        doc="How often the high watermarks are written down.")
    num_replica_fetchers: int = setting(
        "num.replica.fetchers", 1, at_least=1, scope=Scope.CLUSTER,
        doc="Connections on which a broker follows each other broker.")
    num_replica_alter_log_dirs_threads: int | None = setting(
        "num.replica.alter.log.dirs.threads", no_effect=COPIES_IN_TURN,
        doc="Copies between directories that run at one time; without it, one per directory.")

    # Controller
    auto_leader_rebalance_enable: bool = setting(
        "auto.leader.rebalance.enable", True,
        doc="Give leadership back to the preferred replicas from time to time.")
    leader_imbalance_check_interval_seconds: Long = setting(
        "leader.imbalance.check.interval.seconds", 300, at_least=1,
        doc="How often leadership is looked over.")
    leader_imbalance_per_broker_percentage: int = setting(
        "leader.imbalance.per.broker.percentage", 10, at_least=0,
        doc="Share of a broker's partitions that may be led elsewhere before it gets them back.")
    controlled_shutdown_enable: bool = setting(
        "controlled.shutdown.enable", True,
        doc="Hand over leadership before the broker stops.")
    controlled_shutdown_max_retries: int = setting(
        "controlled.shutdown.max.retries", 3, at_least=0,
        doc="How often a stopping broker tries to hand over before it stops all the same.")
    controlled_shutdown_retry_backoff_ms: Long = setting(
        "controlled.shutdown.retry.backoff.ms", 5 * SECOND, at_least=0,
        doc="Pause between two such tries.")
    controller_socket_timeout_ms: int = setting(
        "controller.socket.timeout.ms", 30 * SECOND,
        doc="How long the controller waits for a broker's answer.")
    inter_broker_protocol_version: str = setting(
        "inter.broker.protocol.version", "3.9-IV0", no_effect=REPLACED,
        doc="Kept from old releases: the dialect that brokers speak among themselves.")

    # ZooKeeper
    zookeeper_connect: str | None = setting(
        "zookeeper.connect",
        doc="Comma-separated host:port list, with an optional /chroot at the end; without it the "
            "broker stands alone and keeps its metadata in its first log directory.")
    zookeeper_session_timeout_ms: int = setting(
        "zookeeper.session.timeout.ms", 18 * SECOND, at_least=1,
        doc="ZooKeeper declares a broker dead after this long without a sign of life.")
    zookeeper_connection_timeout_ms: int = setting(
        "zookeeper.connection.timeout.ms", at_least=1,
        doc="How long to wait for the first connection to ZooKeeper; without it, "
            "zookeeper.session.timeout.ms.")
    zookeeper_max_in_flight_requests: int = setting(
        "zookeeper.max.in.flight.requests", 10, at_least=1, no_effect=AS_THEY_COME,
        doc="Requests to ZooKeeper that may be unanswered at one time.")
    zookeeper_set_acl: bool = setting(
        "zookeeper.set.acl", False,
        doc="Protect what the broker writes in ZooKeeper so that only brokers can change it; "
            "credentials, tokens and settings of brokers are for their eyes alone.")
    zookeeper_sasl_client: bool = setting(
        "zookeeper.sasl.client", True,
        doc="Moldau's own: what a JVM is told by a flag of this name. Whether to log in to "
            "ZooKeeper if the JAAS file says as whom; without the setting KAFKA_OPTS is looked at.")
    zookeeper_sasl_clientconfig: str = setting(
        "zookeeper.sasl.clientconfig", "Client",
        doc="Moldau's own, likewise: the section of the JAAS file that says as whom.")
    zookeeper_sasl_client_username: str = setting(
        "zookeeper.sasl.client.username", "zookeeper",
        doc="Moldau's own, likewise: ZooKeeper's Kerberos name, the part before the host.")
    zookeeper_digest: Password | None = setting(
        "zookeeper.digest",
        doc="Moldau's own: user:password that the broker shows to ZooKeeper (its scheme digest); "
            "zookeeper.set.acl protects nodes with it. Apache Kafka knows only log-ins by SASL.")
    zookeeper_ssl_client_enable: bool = setting(
        "zookeeper.ssl.client.enable", False,
        doc="Encrypt connections to ZooKeeper.")
    zookeeper_ssl_truststore_location: str | None = setting(
        "zookeeper.ssl.truststore.location",
        doc="File with the certificates that ZooKeeper's may be signed by; without it those that "
            "the system trusts.")
    zookeeper_ssl_truststore_password: Password | None = setting(
        "zookeeper.ssl.truststore.password",
        doc="Password of that file.")
    zookeeper_ssl_truststore_type: str | None = setting(
        "zookeeper.ssl.truststore.type", one_of=("PEM", "PKCS12", "JKS"),
        doc="Form of that file; without it what its name says: .pem or a key store.")
    zookeeper_ssl_keystore_location: str | None = setting(
        "zookeeper.ssl.keystore.location",
        doc="File with the broker's key and certificate, where ZooKeeper asks for one.")
    zookeeper_ssl_keystore_type: str | None = setting(
        "zookeeper.ssl.keystore.type", one_of=("PEM", "PKCS12", "JKS"),
        doc="Form of that file; without it what its name says: .pem or a key store.")
    zookeeper_ssl_keystore_password: Password | None = setting(
        "zookeeper.ssl.keystore.password",
        doc="Password of that file, or of the key in it.")
    zookeeper_ssl_protocol: str = setting(
        "zookeeper.ssl.protocol", "TLSv1.2", one_of=("TLSv1.2", "TLSv1.3"),
        doc="Version of TLS to speak with ZooKeeper.")
    zookeeper_ssl_enabled_protocols: Names = setting(
        "zookeeper.ssl.enabled.protocols", (),
        doc="Versions of TLS to choose from; empty means zookeeper.ssl.protocol alone if it is "
            "set, else 1.2 and 1.3: ZooKeeper 3.9 may speak nothing but 1.3.")
    zookeeper_ssl_cipher_suites: Names = setting(
        "zookeeper.ssl.cipher.suites", (),
        doc="Cipher suites to choose from; empty means the library's choice.")
    zookeeper_ssl_endpoint_identification_algorithm: str = setting(
        "zookeeper.ssl.endpoint.identification.algorithm", "HTTPS",
        doc="HTTPS compares ZooKeeper's host with its certificate; anything else does not.")
    zookeeper_ssl_crl_enable: bool = setting(
        "zookeeper.ssl.crl.enable", False, refused=NO_REVOCATION,
        doc="Look whether ZooKeeper's certificate stands in a list of revoked ones.")
    zookeeper_ssl_ocsp_enable: bool = setting(
        "zookeeper.ssl.ocsp.enable", False, refused=NO_REVOCATION,
        doc="Ask the authority whether ZooKeeper's certificate was revoked.")
    zookeeper_clientcnxnsocket: str | None = setting(
        "zookeeper.clientCnxnSocket", no_effect=ZOOKEEPER_CLASS,
        doc="Class of the connection to ZooKeeper.")
    zookeeper_metadata_migration_enable: bool = setting(
        "zookeeper.metadata.migration.enable", False,
        no_effect="there is no other kind of metadata to migrate to",
        doc="Kept from old releases: move metadata from ZooKeeper to KRaft.")
    password_encoder_secret: Password | None = setting(
        "password.encoder.secret",
        doc="Secret with which passwords are encrypted that are set while the broker runs, in "
            "ZooKeeper. Without it they cannot be set there.")
    password_encoder_old_secret: Password | None = setting(
        "password.encoder.old.secret",
        doc="The secret before that: what it encrypted is encrypted anew at the start.")
    password_encoder_keyfactory_algorithm: str | None = setting(
        "password.encoder.keyfactory.algorithm", one_of=KEY_FACTORIES,
        doc="How the key is made of the secret; without it PBKDF2WithHmacSHA512.")
    password_encoder_cipher_algorithm: str = setting(
        "password.encoder.cipher.algorithm", "AES/CBC/PKCS5Padding", one_of=CIPHERS,
        doc="How passwords are encrypted.")
    password_encoder_key_length: int = setting(
        "password.encoder.key.length", 128, check=key_length_fault,
        doc="Bits of the key.")
    password_encoder_iterations: int = setting(
        "password.encoder.iterations", 4096, at_least=1024, at_most=1_000_000,
        doc="Rounds in which the key is made of the secret.")

    # Quotas
    quota_window_num: int = setting(
        "quota.window.num", 11, at_least=1,
        doc="Samples over which a client's rate is measured.")
    quota_window_size_seconds: int = setting(
        "quota.window.size.seconds", 1, at_least=1,
        doc="Length of one such sample.")
    replication_quota_window_num: int = setting(
        "replication.quota.window.num", 11, at_least=1,
        doc="Samples over which the rate of throttled replication is measured.")
    replication_quota_window_size_seconds: int = setting(
        "replication.quota.window.size.seconds", 1, at_least=1,
        doc="Length of one such sample.")
    alter_log_dirs_replication_quota_window_num: int = setting(
        "alter.log.dirs.replication.quota.window.num", 11, at_least=1, no_effect=NO_COPY_THROTTLE,
        doc="Samples over which the rate of copies between directories is measured.")
    alter_log_dirs_replication_quota_window_size_seconds: int = setting(
        "alter.log.dirs.replication.quota.window.size.seconds", 1, at_least=1,
        no_effect=NO_COPY_THROTTLE,
        doc="Length of one such sample.")
    controller_quota_window_num: int = setting(
        "controller.quota.window.num", 11, at_least=1,
        doc="Samples over which the rate of topic changes is measured.")
    controller_quota_window_size_seconds: int = setting(
        "controller.quota.window.size.seconds", 1, at_least=1,
        doc="Length of one such sample.")
    client_quota_callback_class: ClassName | None = setting(
        "client.quota.callback.class", refused=QUOTA_ASKED,
        doc="Class that decides which quota a client has.")

    # Metrics
    metric_reporters: Names = setting(
        "metric.reporters", (JMX_REPORTER,), scope=Scope.CLUSTER,
        doc="Python classes that carry metrics elsewhere, as module:Class (moldau.reporting). Read "
            "at the start only. Kafka's JmxReporter may be named and needs no class: MBeans are "
            "read at metrics.http.listener.")
    kafka_metrics_reporters: Names = setting(
        "kafka.metrics.reporters", (), one_of=(CSV_REPORTER,),
        doc="Kafka's older kind of reporters, of which there is one: it writes CSV files.")
    kafka_metrics_polling_interval_secs: int = setting(
        "kafka.metrics.polling.interval.secs", 10, at_least=1,
        doc="How often reporters are given the metrics.")
    kafka_csv_metrics_reporter_enabled: bool = setting(
        "kafka.csv.metrics.reporter.enabled", False,
        doc="Let the CSV reporter write.")
    kafka_csv_metrics_dir: str = setting(
        "kafka.csv.metrics.dir", "kafka_metrics",
        doc="Where the CSV reporter writes a file for each metric.")
    metrics_json_file: str | None = setting(
        "metrics.json.file",
        doc="Where to write the metrics to again and again, a line of JSON each time; nowhere if "
            "it is unset.")
    metrics_json_max_bytes: Long = setting(
        "metrics.json.max.bytes", 100 * MIB, at_least=1,
        doc="When that file is larger it becomes .1, and another is begun.")
    metrics_otlp_endpoint: str | None = setting(
        "metrics.otlp.endpoint", check=http_address,
        doc="Where to send metrics to, and those that clients push, by OTLP over HTTP, as "
            "http://host:4318/v1/metrics; nowhere if it is unset.")
    metrics_otlp_headers: Password | None = setting(
        "metrics.otlp.headers",
        doc="Headers of these requests as name=value,name=value, for instance an API key.")
    metrics_http_listener: str | None = setting(
        "metrics.http.listener", check=host_and_port,
        doc="Where Prometheus and health checks may ask, as host:port; nowhere if it is unset. "
            "Who reaches that address needs no log-in.")
    metrics_http_hosts: Names = setting(
        "metrics.http.hosts", (),
        doc="Names besides localhost, those in advertised.listeners and the machine's own by which "
            "metrics may be asked; any other name in a request's Host is refused.")
    metrics_http_dialect: str = setting(
        "metrics.http.dialect", "strimzi", one_of=("strimzi", "confluent"),
        doc="Whose names metrics have: those of Strimzi and of the JMX exporter's examples, or "
            "those of Confluent's dashboards.")
    metrics_num_samples: int = setting(
        "metrics.num.samples", 2, at_least=1, no_effect=NO_METRICS,
        doc="Samples over which a metric's rate is computed.")
    metrics_sample_window_ms: Long = setting(
        "metrics.sample.window.ms", 30 * SECOND, at_least=1, no_effect=NO_METRICS,
        doc="Length of one such sample.")
    metrics_recording_level: str = setting(
        "metrics.recording.level", "INFO", one_of=("INFO", "DEBUG", "TRACE"), ignore_case=True,
        no_effect=NO_METRICS,
        doc="How detailed the metrics are.")
    auto_include_jmx_reporter: bool = setting(
        "auto.include.jmx.reporter", True,
        no_effect="MBeans are read at metrics.http.listener",
        doc="Kept from old releases: report metrics over JMX.")
    telemetry_max_bytes: int = setting(
        "telemetry.max.bytes", 1 * MIB, at_least=1,
        doc="Largest batch of its own metrics that a client may send.")
    log4j_configuration: str | None = setting(
        "log4j.configuration", hidden=True, no_effect="the broker logs to its standard output",
        doc="Path of a logging configuration.")

    # Producers
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms", 1 * DAY, at_least=1, scope=Scope.CLUSTER,
        doc="Forget an idempotent producer that has written nothing for this long.")
    producer_id_expiration_check_interval_ms: int = setting(
        "producer.id.expiration.check.interval.ms", 10 * MINUTE, at_least=1, hidden=True,
        doc="How often idle producers are looked for.")
    producer_state_max_bytes: Long = setting(
        "producer.state.max.bytes", 512 * MIB, at_least=1 * MIB, scope=Scope.CLUSTER,
        doc="Moldau's own: about how much memory the producers that this broker's partitions "
            "remember may take. Beyond it those silent for longest are forgotten, but not before "
            "ten minutes; if that is not enough, partitions with more than their share take no "
            "new producer, and clients come back.")
    config_providers: Names = setting(
        "config.providers", (), scope=Scope.CLUSTER, refused=PROVIDER_ASKED,
        doc="Names of classes that fill in placeholders in this file.")
