package dev.octet.trainer.replay;

import java.util.ArrayList;
import java.util.List;

/** Steps in which a replay's loss or gradient norm jumps above those of the steps before. */
final class Spikes {
    /** A loss jumps when it is so many times the median of the steps before it, ... */
    private static final double LOSS = 2;

    /** ... a gradient norm when it is so many times theirs. */
    private static final double NORM = 10;

    private Spikes() {}

    /** Places of these steps, from 0; never the first. */
    static List<Integer> of(Replay replay) {
        List<Integer> spikes = new ArrayList<>();
        for (int i = 1; i < replay.losses().size(); i++) {
            double loss = LOSS * median(replay.losses().subList(0, i));
            double norm = NORM * median(replay.norms().subList(0, i));
            boolean jumps = (loss > 0 && replay.losses().get(i) > loss)
                    || replay.norms().get(i) > norm;
            if (jumps) {
                spikes.add(i);
            }
        }
        return spikes;
    }

    /** The lower of the two in the middle of an even number. */
    private static double median(List<Double> numbers) {
        return numbers.stream().sorted().toList().get((numbers.size() - 1) / 2);
    }
}
