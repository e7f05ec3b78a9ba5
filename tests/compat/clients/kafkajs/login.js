// Logs in as one JSON line on stdin says, sends some records with pauses, and says how it went.

'use strict'

const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const MECHANISMS = { PLAIN: 'plain', 'SCRAM-SHA-256': 'scram-sha-256', 'SCRAM-SHA-512': 'scram-sha-512' }

const optionsOf = asked => {
  const options = { brokers: [asked.bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 2 } }
  if (asked.ca) {
    options.ssl = { ca: [fs.readFileSync(asked.ca)] }
    if (asked.pair) Object.assign(options.ssl, { key: fs.readFileSync(asked.pair), cert: fs.readFileSync(asked.pair) })
  }
  if (asked.mechanism) {
    options.sasl = { mechanism: MECHANISMS[asked.mechanism], username: asked.user, password: asked.password }
    options.reauthenticationThreshold = 1000
  }
  return options
}

const kindOf = fault => {
  const names = []
  for (let one = fault; one; one = one.cause) names.push(`${one.name} ${one.message}`)
  const all = names.join(' ')
  if (/SASLAuthentication/.test(all)) return 'login'
  if (/certificate|altnames/i.test(all)) return 'tls'
  return 'other'
}

const main = async asked => {
  const producer = new Kafka(optionsOf(asked)).producer()
  try {
    await producer.connect()
    for (let sent = 0; sent < asked.sends; sent++) {
      await producer.send({ topic: asked.topic, messages: [{ value: String(sent) }] })
      await new Promise(resolve => setTimeout(resolve, asked.pause_ms))
    }
    return { ok: true }
  } catch (fault) {
    return { error: `${fault.name}: ${fault.message}`, kind: kindOf(fault) }
  } finally {
    await producer.disconnect().catch(() => {})
  }
}

main(JSON.parse(fs.readFileSync(0, 'utf8'))).then(told => {
  console.log(JSON.stringify(told))
  process.exit(0)
})
