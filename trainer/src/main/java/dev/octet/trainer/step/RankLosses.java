package dev.octet.trainer.step;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.loss.LossValue;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Losses of the micro-batches of all ranks, on each of them and in the order of the micro-batches: of N consecutive ones each is one rank's, so that any mean of them has the
 * bits that one process computes.
 */
public final class RankLosses {
    private RankLosses() {}

    /**
     * The losses of all.
     *
     * @param own of this rank's micro-batches, in their order; as many as the other ranks have, or at most one fewer than those before it
     */
    public static List<LossValue> of(Collectives world, List<LossValue> own) {
        if (world.isAlone()) {
            return own;
        }
        List<List<LossValue>> ranks =
                world.gather(bytes(own)).stream().map(RankLosses::read).toList();
        List<LossValue> all = new ArrayList<>();
        for (int i = 0; i < ranks.getFirst().size(); i++) {
            for (List<LossValue> rank : ranks) {
                if (i < rank.size()) {
                    all.add(rank.get(i));
                }
            }
        }
        return all;
    }

    /**
     * The losses that the last stage of a pipeline has computed, on each stage.
     *
     * @param own of this stage's micro-batches; of what a stage other than the last says, nothing is taken
     */
    static List<LossValue> ofLast(Collectives pipeline, List<LossValue> own) {
        return pipeline.isAlone() ? own : read(pipeline.gather(bytes(own)).getLast());
    }

    private static byte[] bytes(List<LossValue> losses) {
        int length = Integer.BYTES;
        for (LossValue loss : losses) {
            length += Double.BYTES + Long.BYTES + Integer.BYTES;
            for (String part : loss.parts().keySet()) {
                length += Integer.BYTES + part.getBytes(StandardCharsets.UTF_8).length + Double.BYTES;
            }
        }
        ByteBuffer bytes = ByteBuffer.allocate(length).putInt(losses.size());
        for (LossValue loss : losses) {
            bytes.putDouble(loss.total())
                    .putLong(loss.positions())
                    .putInt(loss.parts().size());
            loss.parts().forEach((part, value) -> {
                byte[] name = part.getBytes(StandardCharsets.UTF_8);
                bytes.putInt(name.length).put(name).putDouble(value);
            });
        }
        return bytes.array();
    }

    private static List<LossValue> read(byte[] of) {
        ByteBuffer bytes = ByteBuffer.wrap(of);
        List<LossValue> losses = new ArrayList<>();
        int count = bytes.getInt();
        for (int i = 0; i < count; i++) {
            double total = bytes.getDouble();
            long positions = bytes.getLong();
            Map<String, Double> parts = new TreeMap<>();
            for (int left = bytes.getInt(); left > 0; left--) {
                byte[] name = new byte[bytes.getInt()];
                bytes.get(name);
                parts.put(new String(name, StandardCharsets.UTF_8), bytes.getDouble());
            }
            losses.add(new LossValue(total, parts, positions));
        }
        return losses;
    }
}
