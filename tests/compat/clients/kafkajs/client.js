// kafkajs, asked in JSON lines; tests/compat/clients/program.py tells how.
// Its public consumer always joins a group, so reading uses the cluster object underneath it.

'use strict'

const readline = require('readline')
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const { createLogger } = require('kafkajs/src/loggers')
const LoggerConsole = require('kafkajs/src/loggers/console')
const socketFactory = require('kafkajs/src/network/socketFactory')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const zstd = require('@bokuweb/zstd-wasm')
const groups = require('./groups')

const REQUEST_BYTES_MAX = 4 * 1024 * 1024
const BATCH_RECORDS_MAX = 2000
const LATEST = -1
const EARLIEST = -2
const TYPES = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4.compressFrame(encoder.buffer),
  decompress: async buffer => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer, 3)),
  decompress: async buffer => Buffer.from(zstd.decompress(buffer)),
})

const [bootstrap, millisMax] = [process.argv[2], Number(process.argv[3])]
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 3 } })
const admin = kafka.admin()

const bytes = text => (text === null ? null : Buffer.from(text, 'base64'))
const text = data => (data === null || data === undefined ? null : data.toString('base64'))

// kafkajs wants headers as an object, several values of one name as an array.
const headersToObject = pairs => {
  const headers = {}
  for (const [name, value] of pairs) {
    headers[name] = name in headers ? [headers[name], bytes(value)].flat() : bytes(value)
  }
  return headers
}

const headersToPairs = headers =>
  Object.entries(headers).flatMap(([name, value]) => [value].flat().map(one => [name, text(one)]))

const messageOf = ([partition, key, value, headers, timestamp]) => ({
  partition,
  key: bytes(key),
  value: bytes(value),
  headers: headersToObject(headers),
  timestamp: String(timestamp),
})

async function produce({ topic, records, codec, acks }) {
  const idempotent = acks === 'all'
  const producer = kafka.producer({ idempotent, maxInFlightRequests: 1, createPartitioner: () => chosen })
  await producer.connect()
  const offsets = []
  try {
    for (let start = 0; start < records.length; start += BATCH_RECORDS_MAX) {
      const rows = records.slice(start, start + BATCH_RECORDS_MAX)
      const answers = await producer.send({
        topic,
        messages: rows.map(messageOf),
        compression: TYPES[codec],
        acks: idempotent ? -1 : Number(acks),
      })
      const next = new Map((answers || []).map(a => [a.partition, Number(a.baseOffset)]))
      for (const [partition] of rows) {
        offsets.push(next.has(partition) ? next.get(partition) : -1)
        next.set(partition, next.has(partition) ? next.get(partition) + 1 : -1)
      }
    }
  } finally {
    await producer.disconnect()
  }
  return acks === '0' ? offsets.map(() => -1) : offsets
}

const chosen = ({ message }) => message.partition

async function consume({ topic, counts }) {
  const logger = createLogger({ level: logLevel.NOTHING, logCreator: LoggerConsole })
  const cluster = new Cluster({
    logger,
    socketFactory: socketFactory(),
    brokers: [bootstrap],
    offsets: new Map(),
    connectionTimeout: 1000,
    requestTimeout: 30000,
    metadataMaxAge: 300000,
    allowAutoTopicCreation: false,
  })
  await cluster.connect()
  try {
    await cluster.addTargetTopic(topic)
    const asked = Object.keys(counts).map(Number)
    const partitions = asked.map(partition => ({ partition }))
    const starts = await cluster.fetchTopicsOffset([{ topic, partitions, fromBeginning: true }])
    const next = new Map(starts[0].partitions.map(p => [p.partition, Number(p.offset)]))
    const rows = []
    for (const partition of asked) {
      rows.push(...(await readPartition(cluster, topic, partition, next.get(partition), counts[partition])))
    }
    return rows
  } finally {
    await cluster.disconnect()
  }
}

async function readPartition(cluster, topic, partition, start, count) {
  const { leader } = cluster.findTopicPartitionMetadata(topic).find(p => p.partitionId === partition)
  const broker = await cluster.findBroker({ nodeId: leader })
  const rows = []
  let fetchOffset = start
  const deadline = Date.now() + millisMax
  while (rows.length < count && Date.now() < deadline) {
    const answer = await broker.fetch({
      isolationLevel: 0,
      maxWaitTime: 500,
      maxBytes: REQUEST_BYTES_MAX,
      topics: [{ topic, partitions: [{ partition, fetchOffset: String(fetchOffset), maxBytes: REQUEST_BYTES_MAX }] }],
    })
    for (const message of answer.responses[0].partitions[0].messages) {
      const offset = Number(message.offset)
      if (offset < fetchOffset) continue
      const { key, value, headers, timestamp } = message
      rows.push([partition, offset, text(key), text(value), headersToPairs(headers), Number(timestamp)])
      fetchOffset = offset + 1
    }
  }
  return rows
}

const topicConfigs = topic => ({ type: ConfigResourceTypes.TOPIC, name: topic })

const operations = {
  ...groups(bootstrap, admin),
  produce,
  consume,
  async create_topic({ topic, partitions, configs }) {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    const made = await admin.createTopics({
      topics: [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }],
    })
    // kafkajs answers false, not an error, for a topic that is there already.
    if (!made) throw Object.assign(new Error('the topic exists'), { code: 36 })
  },
  topics: () => admin.listTopics(),
  async describe_topic({ topic }) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions.map(p => [p.partitionId, p.leader, p.replicas, p.isr])
  },
  async configs({ topic }) {
    const { resources } = await admin.describeConfigs({ includeSynonyms: true, resources: [topicConfigs(topic)] })
    return Object.fromEntries(resources[0].configEntries.map(e => [e.configName, e.configValue]))
  },
  async alter_configs({ topic, changes }) {
    const configEntries = Object.entries(changes).map(([name, value]) => ({ name, value }))
    await admin.alterConfigs({ resources: [{ ...topicConfigs(topic), configEntries }] })
  },
  create_partitions: ({ topic, total }) =>
    admin.createPartitions({ topicPartitions: [{ topic, count: total }] }),
  delete_records: ({ topic, partition, before_offset }) =>
    admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before_offset) }] }),
  async offsets({ topic, partition }) {
    const rows = await admin.fetchTopicOffsets(topic)
    const row = rows.find(r => r.partition === partition)
    return [Number(row.low), Number(row.high)]
  },
  async offset_at({ topic, timestamp_ms, partition }) {
    const rows = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp_ms)
    return Number(rows.find(r => r.partition === partition).offset)
  },
  delete_topic: ({ topic }) => admin.deleteTopics({ topics: [topic] }),
}

// The library wraps what the broker said once or several times over.
function brokerError(error) {
  for (let at = error; at; at = at.cause || at.originalError || (at.errors && at.errors[0])) {
    if (typeof at.code === 'number' && at.code > 0) return at
  }
  return null
}

async function answer(asked) {
  try {
    const result = await operations[asked.op](asked)
    return { result: result === undefined ? null : result }
  } catch (error) {
    const refusal = brokerError(error)
    if (refusal) return { refused: refusal.code, message: refusal.message }
    return { failed: String((error && error.stack) || error) }
  }
}

async function main() {
  await zstd.init()
  await admin.connect()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(JSON.stringify(await answer(JSON.parse(line))) + '\n')
  }
  await admin.disconnect()
  // Members that a failed test left behind must not keep the program alive.
  process.exit(0)
}

main()
