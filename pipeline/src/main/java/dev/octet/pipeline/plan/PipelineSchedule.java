package dev.octet.pipeline.plan;

import dev.octet.trainer.shard.CallOrder;
import dev.octet.trainer.shard.CallOrder.Call;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The stages of a pipeline computing micro-batches, played through in the trainer's {@linkplain CallOrder order}. Backward takes twice the time of forward. */
public final class PipelineSchedule {
    private static final int FORWARD = 1;
    private static final int BACKWARD = 2;

    /** Characters in front of a stage's row, but for its number. */
    private static final int LABEL = "stage   ".length();

    /** When it was computed: the unit is forward of a chunk. */
    private record Done(Call call, int start, int end) {}

    private final int stages;
    private final int chunks;
    private final int microBatches;
    private final List<List<Done>> rows;

    /**
     * Plays a schedule through.
     *
     * @param microBatches of a step; with several chunks divisible by the stages
     */
    public PipelineSchedule(int stages, int chunks, int microBatches) {
        this.stages = stages;
        this.chunks = chunks;
        this.microBatches = microBatches;
        this.rows = play(new CallOrder(stages, chunks, microBatches));
    }

    private List<List<Done>> play(CallOrder order) {
        List<List<Call>> orders = new ArrayList<>();
        List<List<Done>> done = new ArrayList<>();
        for (int s = 0; s < stages; s++) {
            orders.add(order.of(s));
            done.add(new ArrayList<>());
        }
        int depth = stages * chunks; // virtual stages, dealt out to the stages in turn
        int[][] forwardEnd = ends(depth);
        int[][] backwardEnd = ends(depth);
        boolean moved = true;
        while (moved) {
            moved = false;
            for (int s = 0; s < stages; s++) {
                List<Done> row = done.get(s);
                while (row.size() < orders.get(s).size()) {
                    Call c = orders.get(s).get(row.size());
                    int virtual = c.chunk() * stages + s;
                    int ready = ready(c, virtual, forwardEnd, backwardEnd);
                    if (ready < 0) {
                        break;
                    }
                    int start =
                            Math.max(ready, row.isEmpty() ? 0 : row.getLast().end());
                    int end = start + (c.backward() ? BACKWARD : FORWARD);
                    row.add(new Done(c, start, end));
                    (c.backward() ? backwardEnd : forwardEnd)[virtual][c.microBatch()] = end;
                    moved = true;
                }
            }
        }
        for (int s = 0; s < stages; s++) {
            if (done.get(s).size() < orders.get(s).size()) {
                throw new IllegalStateException("stage " + s + " waits for ever");
            }
        }
        return done;
    }

    private int[][] ends(int depth) {
        int[][] ends = new int[depth][microBatches];
        for (int[] row : ends) {
            Arrays.fill(row, -1);
        }
        return ends;
    }

    /** When what a call reads is there; -1 where it is not yet. */
    private static int ready(Call c, int virtual, int[][] forwardEnd, int[][] backwardEnd) {
        int m = c.microBatch();
        if (!c.backward()) {
            return virtual == 0 ? 0 : forwardEnd[virtual - 1][m];
        }
        int own = forwardEnd[virtual][m];
        int later = virtual + 1 == forwardEnd.length ? own : backwardEnd[virtual + 1][m];
        return own < 0 || later < 0 ? -1 : Math.max(own, later);
    }

    /** Micro-batches that it plays. */
    public int microBatches() {
        return microBatches;
    }

    /** Time of the whole, in forwards of a chunk. */
    public int length() {
        return rows.stream().mapToInt(r -> r.getLast().end()).max().orElse(0);
    }

    /** The part of the time that stages wait. */
    public double bubble() {
        long busy = (long) stages * microBatches * chunks * (FORWARD + BACKWARD);
        return 1 - (double) busy / stages / length();
    }

    /** Forwards of a chunk that a character of the text stands for. */
    public int each(int columns) {
        return Math.ceilDiv(length(), columns - String.valueOf(stages).length() - LABEL);
    }

    /**
     * The schedule as text: a line for each stage. A character is a forward of a chunk, or as many as are needed for the whole to be shown. Micro-batches are digits in
     * forward and letters in backward, both from the first again after ten; a point is waiting.
     *
     * @param columns that a line may take
     * @param lines that the text may take; stages in the middle are left out
     */
    public List<String> text(int columns, int lines) {
        List<String> text = new ArrayList<>();
        int width = String.valueOf(stages).length();
        int each = each(columns);
        for (int s = 0; s < stages; s++) {
            if (stages > lines && s >= lines / 2 && s < stages - (lines - 1 - lines / 2)) {
                if (s == lines / 2) {
                    text.add("...");
                }
                continue;
            }
            char[] line = new char[length()];
            Arrays.fill(line, '.');
            for (Done d : rows.get(s)) {
                int digit = d.call().microBatch() % 10;
                Arrays.fill(line, d.start(), d.end(), (char) ((d.call().backward() ? 'a' : '0') + digit));
            }
            StringBuilder row = new StringBuilder();
            for (int i = 0; i < line.length; i += each) {
                row.append(line[i]);
            }
            text.add("stage " + " ".repeat(width - String.valueOf(s + 1).length()) + (s + 1) + "  " + row);
        }
        return text;
    }
}
