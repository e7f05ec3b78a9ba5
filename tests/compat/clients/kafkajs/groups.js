// Consumer groups of kafkajs: members by name, and what its admin client says of groups.

'use strict'

const { Kafka, logLevel } = require('kafkajs')
const { AssignerProtocol } = require('kafkajs')

const nowMicros = () => Math.round((performance.timeOrigin + performance.now()) * 1000)

class Member {
  constructor(bootstrap, wanted) {
    const clientId = `member-of-${wanted.group}`
    const kafka = new Kafka({ brokers: [bootstrap], clientId, logLevel: logLevel.NOTHING })
    this.wanted = wanted
    this.consumer = kafka.consumer({
      groupId: wanted.group,
      sessionTimeout: wanted.session_timeout_ms,
      heartbeatInterval: wanted.heartbeat_ms,
      metadataMaxAge: wanted.metadata_age_ms,
      maxWaitTimeInMs: 100,
      allowAutoTopicCreation: false,
    })
    this.changes = []
    this.reads = []
    this.owned = []
    this.next = new Map()
    this.failure = null
  }

  async join() {
    const { events } = this.consumer
    this.consumer.on(events.REBALANCING, () => this.own([]))
    this.consumer.on(events.GROUP_JOIN, ({ payload }) => {
      const rows = Object.entries(payload.memberAssignment)
      this.own(rows.flatMap(([topic, partitions]) => partitions.map(p => [topic, p])))
    })
    this.consumer.on(events.CRASH, ({ payload }) => {
      if (!payload.restart) this.failure = payload.error
    })
    await this.consumer.connect()
    const { pattern, topics } = this.wanted
    const subscribed = pattern === null ? topics : [new RegExp(pattern)]
    await this.consumer.subscribe({ topics: subscribed, fromBeginning: true })
    await this.consumer.run({ autoCommit: false, eachBatch: batch => this.take(batch) })
  }

  // The library has no callback for what goes: everything does before a member joins again.
  own(places) {
    if (this.owned.length) this.changes.push([nowMicros(), 'revoked', this.owned])
    if (places.length) this.changes.push([nowMicros(), 'assigned', places])
    this.owned = places
  }

  async take({ batch, resolveOffset, commitOffsetsIfNecessary, uncommittedOffsets, isStale }) {
    for (const { offset, value } of batch.messages) {
      if (isStale()) return
      this.reads.push([batch.topic, batch.partition, Number(offset), value.toString('base64')])
      this.next.set(`${batch.topic} ${batch.partition}`, String(Number(offset) + 1))
      resolveOffset(offset)
    }
    if (this.wanted.commits) await commitOffsetsIfNecessary(uncommittedOffsets())
  }

  seen() {
    if (this.failure) throw this.failure
    const seen = { changes: this.changes, reads: this.reads }
    this.changes = []
    this.reads = []
    return seen
  }

  commit(wait) {
    const rows = [...this.next].map(([place, offset]) => {
      const [topic, partition] = place.split(' ')
      return { topic, partition: Number(partition), offset }
    })
    const committed = this.consumer.commitOffsets(rows)
    return wait ? committed : undefined
  }

  async stop() {
    this.own([])
    this.consumer.on(this.consumer.events.GROUP_JOIN, () => this.own([]))
    await this.consumer.disconnect()
  }
}

module.exports = (bootstrap, admin) => {
  const members = new Map()
  const refuse = (code, message) => {
    if (code) throw Object.assign(new Error(message || 'refused'), { code })
  }
  return {
    async member_join(wanted) {
      const made = new Member(bootstrap, wanted)
      members.set(wanted.member, made)
      await made.join()
    },
    member_seen: ({ member }) => members.get(member).seen(),
    member_commit: ({ member, wait }) => members.get(member).commit(wait),
    member_seek: ({ member, topic, partition, offset }) =>
      members.get(member).consumer.seek({ topic, partition, offset: String(offset) }),
    member_stop: ({ member }) => members.get(member).stop(),
    async groups() {
      const { groups } = await admin.listGroups()
      return groups.map(row => row.groupId)
    },
    async describe_group({ group }) {
      const { groups } = await admin.describeGroups([group])
      refuse(groups[0].errorCode)
      const rows = groups[0].members.map(({ clientId, memberAssignment }) => {
        const decoded = memberAssignment.length && AssignerProtocol.MemberAssignment.decode(memberAssignment)
        const assigned = decoded ? Object.entries(decoded.assignment) : []
        return [clientId, assigned.flatMap(([topic, partitions]) => partitions.map(p => [topic, p]))]
      })
      return [groups[0].state, rows]
    },
    async committed({ group, topic }) {
      const [row] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
      const found = row.partitions.filter(p => Number(p.offset) >= 0)
      return Object.fromEntries(found.map(p => [p.partition, Number(p.offset)]))
    },
    reset_group: ({ group, topic, partition, offset }) =>
      admin.setOffsets({ groupId: group, topic, partitions: [{ partition, offset: String(offset) }] }),
    async delete_group({ group }) {
      try {
        await admin.deleteGroups([group])
      } catch (error) {
        const row = error.groups && error.groups[0]
        if (row) refuse(row.errorCode, String(row.error))
        throw error
      }
    },
  }
}
