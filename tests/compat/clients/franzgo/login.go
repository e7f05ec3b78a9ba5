// Logs in as one JSON line on stdin says, sends some records with pauses, and says how it went.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type login struct {
	Bootstrap string `json:"bootstrap"`
	Protocol  string `json:"protocol"`
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	CA        string `json:"ca"`
	Pair      string `json:"pair"`
	Topic     string `json:"topic"`
	Sends     int    `json:"sends"`
	PauseMs   int    `json:"pause_ms"`
}

func tryLogin() {
	var asked login
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	told := map[string]any{"ok": true}
	if err := asked.send(ctx); err != nil {
		told = map[string]any{"error": err.Error(), "kind": kindOf(err)}
	}
	_ = json.NewEncoder(os.Stdout).Encode(told)
}

func (asked *login) send(ctx context.Context) error {
	options, err := asked.options()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	// What the library itself calls trying whether brokers answer; sending tries for ever.
	if err := client.Ping(ctx); err != nil {
		return err
	}
	for sent := 0; sent < asked.Sends; sent++ {
		record := &kgo.Record{Topic: asked.Topic, Value: []byte(fmt.Sprint(sent))}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
		time.Sleep(time.Duration(asked.PauseMs) * time.Millisecond)
	}
	return nil
}

func (asked *login) options() ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(asked.Bootstrap), kgo.AllowAutoTopicCreation()}
	if asked.CA != "" {
		trusted := x509.NewCertPool()
		pem, err := os.ReadFile(asked.CA)
		if err != nil {
			return nil, err
		}
		trusted.AppendCertsFromPEM(pem)
		config := &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
		if asked.Pair != "" {
			own, err := tls.LoadX509KeyPair(asked.Pair, asked.Pair)
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{own}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	switch asked.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: asked.User, Pass: asked.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: asked.User, Pass: asked.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: asked.User, Pass: asked.Password}.AsSha512Mechanism()))
	}
	return options, nil
}

func kindOf(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "login"
	case errors.As(err, &unknown), errors.As(err, &host):
		return "tls"
	}
	return "other"
}
