// Consumer groups: members by name, and what the admin client says of groups.

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

final class Groups {
    private final Properties common;
    private final Admin admin;
    private final Map<String, Member> members = new HashMap<>();

    Groups(Properties common, Admin admin) {
        this.common = common;
        this.admin = admin;
    }

    Object perform(String op, JsonNode asked) throws Exception {
        String group = asked.path("group").asText();
        String name = asked.path("member").asText();
        TopicPartition partition =
            new TopicPartition(asked.path("topic").asText(), asked.path("partition").asInt());
        long offset = asked.path("offset").asLong();
        switch (op) {
            case "member_join":
                members.put(name, new Member(common, asked));
                return null;
            case "member_seen":
                return members.get(name).seen();
            case "member_commit":
                members.get(name).commit(asked.get("wait").asBoolean());
                return null;
            case "member_seek":
                members.get(name).seek(partition, offset);
                return null;
            case "member_stop":
                members.get(name).stop();
                return null;
            case "groups":
                List<String> names = new ArrayList<>();
                admin.listGroups().all().get().forEach(one -> names.add(one.groupId()));
                return names;
            case "describe_group":
                return described(group);
            case "committed":
                Map<String, Long> offsets = new HashMap<>();
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
                    .forEach((place, row) -> {
                        if (row != null && place.topic().equals(partition.topic())) {
                            offsets.put(String.valueOf(place.partition()), row.offset());
                        }
                    });
                return offsets;
            case "reset_group":
                return admin.alterConsumerGroupOffsets(
                    group, Map.of(partition, new OffsetAndMetadata(offset))).all().get();
            case "delete_group":
                return admin.deleteConsumerGroups(List.of(group)).all().get();
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private Object described(String group) throws Exception {
        ConsumerGroupDescription description =
            admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        List<Object> rows = new ArrayList<>();
        for (MemberDescription member : description.members()) {
            List<Object> places = new ArrayList<>();
            member.assignment().topicPartitions()
                .forEach(place -> places.add(List.of(place.topic(), place.partition())));
            rows.add(List.of(member.clientId(), places));
        }
        return List.of(description.groupState().toString(), rows);
    }
}
