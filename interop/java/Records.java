import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Prints records of __consumer_offsets as Apache Kafka serializes them: a
 * name, the key and the value in hexadecimal, "-" for a tombstone. The
 * output is internal/group/testdata/records.txt, below its comment.
 */
public final class Records {
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();
    private static final Uuid ID = new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L);
    private static final Uuid ID2 = new Uuid(0x1112131415161718L, 0x191a1b1c1d1e1f20L);

    private static void print(String name, ApiMessage key, ApiMessage value, int version) {
        CoordinatorRecord r = value == null
            ? CoordinatorRecord.tombstone(key)
            : CoordinatorRecord.record(key, new ApiMessageAndVersion(value, (short) version));
        byte[] v = SERDE.serializeValue(r);
        System.out.println(name + " " + HexFormat.of().formatHex(SERDE.serializeKey(r)) + " "
            + (v == null ? "-" : HexFormat.of().formatHex(v)));
    }

    private static void offsets() {
        OffsetCommitKey k = new OffsetCommitKey().setGroup("g").setTopic("topic-\u00e9").setPartition(7);
        print("offset-v4", k, new OffsetCommitValue().setOffset(1234567890123L).setLeaderEpoch(5).setMetadata("m\u00e9ta")
            .setCommitTimestamp(1700000000123L).setTopicId(ID), 4);
        print("offset-v4-plain", k, new OffsetCommitValue().setOffset(1).setMetadata("").setCommitTimestamp(2), 4);
        print("offset-v4-long", k, new OffsetCommitValue().setOffset(1).setMetadata("x".repeat(200)).setCommitTimestamp(2).setTopicId(ID), 4);
        print("offset-v3", k, new OffsetCommitValue().setOffset(9).setLeaderEpoch(5).setMetadata("m").setCommitTimestamp(10), 3);
        print("offset-v2", k, new OffsetCommitValue().setOffset(9).setMetadata("m").setCommitTimestamp(10), 2);
        print("offset-v1", k, new OffsetCommitValue().setOffset(9).setMetadata("m").setCommitTimestamp(10).setExpireTimestamp(11), 1);
        print("offset-v0", k, new OffsetCommitValue().setOffset(9).setMetadata("m").setCommitTimestamp(10), 0);
        print("offset-tombstone", k, null, 0);
        print("offset-legacy", new LegacyOffsetCommitKey().setGroup("g").setTopic("t").setPartition(7),
            new LegacyOffsetCommitValue().setOffset(9).setMetadata("m").setCommitTimestamp(10), 0);
    }

    private static void classic() {
        GroupMetadataKey k = new GroupMetadataKey().setGroup("g");
        for (int version = 0; version <= 4; version++) {
            print("classic-v" + version, k, new GroupMetadataValue().setProtocolType("consumer").setGeneration(3).setProtocol("range").setLeader("m1")
                .setCurrentStateTimestamp(version >= 2 ? 77 : -1).setMembers(List.of(
                    new GroupMetadataValue.MemberMetadata().setMemberId("m1").setGroupInstanceId(version >= 3 ? "i1" : null).setClientId("c")
                        .setClientHost("/127.0.0.1").setRebalanceTimeout(version >= 1 ? 300000 : -1).setSessionTimeout(45000)
                        .setSubscription(new byte[] {1, 2}).setAssignment(new byte[] {3}),
                    new GroupMetadataValue.MemberMetadata().setMemberId("m2").setClientId("").setClientHost("h")
                        .setRebalanceTimeout(version >= 1 ? 1 : -1).setSessionTimeout(2).setSubscription(new byte[0]).setAssignment(new byte[0]))), version);
        }
        print("classic-empty", k, new GroupMetadataValue().setProtocolType("").setGeneration(0).setProtocol(null).setLeader(null)
            .setCurrentStateTimestamp(-1).setMembers(List.of()), 3);
        print("classic-tombstone", k, null, 0);
    }

    private static void member() {
        ConsumerGroupMemberMetadataKey k = new ConsumerGroupMemberMetadataKey().setGroupId("g").setMemberId("m");
        print("member", k, new ConsumerGroupMemberMetadataValue().setInstanceId("i").setRackId("r").setClientId("c").setClientHost("h")
            .setSubscribedTopicNames(List.of("a", "b")).setSubscribedTopicRegex("x.*").setRebalanceTimeoutMs(1000).setServerAssignor("uniform")
            .setClassicMemberMetadata(null), 0);
        print("member-plain", k, new ConsumerGroupMemberMetadataValue().setInstanceId(null).setRackId(null).setClientId("").setClientHost("")
            .setSubscribedTopicNames(List.of()).setSubscribedTopicRegex(null).setRebalanceTimeoutMs(-1).setServerAssignor(null)
            .setClassicMemberMetadata(null), 0);
        print("member-classic", k, new ConsumerGroupMemberMetadataValue().setInstanceId(null).setRackId(null).setClientId("c").setClientHost("h")
            .setSubscribedTopicNames(List.of("a")).setSubscribedTopicRegex(null).setRebalanceTimeoutMs(5).setServerAssignor(null)
            .setClassicMemberMetadata(new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata().setSessionTimeoutMs(45000).setSupportedProtocols(List.of(
                new ConsumerGroupMemberMetadataValue.ClassicProtocol().setName("range").setMetadata(new byte[] {1, 2, 3}),
                new ConsumerGroupMemberMetadataValue.ClassicProtocol().setName("sticky").setMetadata(new byte[0])))), 0);
        print("member-classic-none", k, new ConsumerGroupMemberMetadataValue().setInstanceId(null).setRackId(null).setClientId("c").setClientHost("h")
            .setSubscribedTopicNames(List.of("a")).setSubscribedTopicRegex(null).setRebalanceTimeoutMs(5).setServerAssignor(null)
            .setClassicMemberMetadata(new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata()), 0);
        print("member-tombstone", k, null, 0);
    }

    private static void assignments() {
        ConsumerGroupTargetAssignmentMemberKey k = new ConsumerGroupTargetAssignmentMemberKey().setGroupId("g").setMemberId("m");
        print("target", k, new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(List.of(
            new ConsumerGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(ID).setPartitions(List.of(0, 1, 300)),
            new ConsumerGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(ID2).setPartitions(List.of(2)))), 0);
        print("target-none", k, new ConsumerGroupTargetAssignmentMemberValue(), 0);
        print("target-tombstone", k, null, 0);

        ConsumerGroupCurrentMemberAssignmentKey c = new ConsumerGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m");
        print("current", c, new ConsumerGroupCurrentMemberAssignmentValue().setMemberEpoch(6).setPreviousMemberEpoch(5).setState((byte) 1)
            .setAssignedPartitions(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(ID)
                .setPartitions(List.of(0, 1)).setAssignmentEpochs(List.of(6, 4))))
            .setPartitionsPendingRevocation(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(ID2)
                .setPartitions(List.of(3)).setAssignmentEpochs(List.of(5)))), 0);
        print("current-no-epochs", c, new ConsumerGroupCurrentMemberAssignmentValue().setMemberEpoch(6).setPreviousMemberEpoch(5).setState((byte) 0)
            .setAssignedPartitions(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(ID)
                .setPartitions(List.of(0, 1)))), 0);
        print("current-null-epochs", c, new ConsumerGroupCurrentMemberAssignmentValue().setMemberEpoch(6).setPreviousMemberEpoch(5).setState((byte) 0)
            .setAssignedPartitions(List.of(new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(ID)
                .setPartitions(List.of(0, 1)).setAssignmentEpochs(null))), 0);
        print("current-none", c, new ConsumerGroupCurrentMemberAssignmentValue().setMemberEpoch(-2).setPreviousMemberEpoch(0).setState((byte) 127), 0);
        print("current-tombstone", c, null, 0);
    }

    private static void groups() {
        ConsumerGroupMetadataKey k = new ConsumerGroupMetadataKey().setGroupId("g");
        print("group-epoch", k, new ConsumerGroupMetadataValue().setEpoch(4).setMetadataHash(-3), 0);
        print("group-epoch-no-hash", k, new ConsumerGroupMetadataValue().setEpoch(4), 0);
        print("group-epoch-tombstone", k, null, 0);
        ConsumerGroupTargetAssignmentMetadataKey t = new ConsumerGroupTargetAssignmentMetadataKey().setGroupId("g");
        print("target-epoch", t, new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(4).setAssignmentTimestamp(1700000000123L), 0);
        print("target-epoch-no-time", t, new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(4), 0);
        print("target-epoch-tombstone", t, null, 0);
        ConsumerGroupPartitionMetadataKey p = new ConsumerGroupPartitionMetadataKey().setGroupId("g");
        print("partition-metadata", p, new ConsumerGroupPartitionMetadataValue().setTopics(List.of(
            new ConsumerGroupPartitionMetadataValue.TopicMetadata().setTopicId(ID).setTopicName("a").setNumPartitions(2))), 0);
        print("partition-metadata-none", p, new ConsumerGroupPartitionMetadataValue(), 0);
        print("partition-metadata-tombstone", p, null, 0);
        ConsumerGroupRegularExpressionKey r = new ConsumerGroupRegularExpressionKey().setGroupId("g").setRegularExpression("x.*");
        print("regex", r, new ConsumerGroupRegularExpressionValue().setTopics(List.of("xa", "xb")).setVersion(12).setTimestamp(13), 0);
        print("regex-none", r, new ConsumerGroupRegularExpressionValue(), 0);
        print("regex-tombstone", r, null, 0);
        print("share", new ShareGroupMetadataKey().setGroupId("g"), new ShareGroupMetadataValue().setEpoch(1), 0);
        print("streams", new StreamsGroupMetadataKey().setGroupId("g"), null, 0);
    }

    public static void main(String[] args) {
        offsets();
        classic();
        member();
        assignments();
        groups();
    }
}
