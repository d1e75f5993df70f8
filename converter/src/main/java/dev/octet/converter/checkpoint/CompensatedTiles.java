package dev.octet.converter.checkpoint;

import dev.octet.quant.gptq.CompensatedRows;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;

/** Rounds tiles with compensation and adds up what it gains. For use by several threads at once. */
final class CompensatedTiles {
    /** Factors in memory at a time: threads work on neighbouring tiles, which belong to few weights. */
    private static final int HELD = 2;

    private final WeightRounding rounding;
    private final Map<String, CompensatedRows> held = new LinkedHashMap<>(16, 0.75f, true);
    private final Map<String, NavigableMap<Long, CompensatedRows.Errors>> errors = new ConcurrentHashMap<>();

    CompensatedTiles(WeightRounding rounding) {
        this.rounding = rounding;
    }

    /** Whether a step's rounding is compensated: of a matrix with moments. */
    boolean has(TensorStep.Quantize step) {
        return rounding.compensated()
                && step.target().shape().rank() == 2
                && rounding.moments().has(step.name());
    }

    /** The rounding of a weight of so many input channels. */
    CompensatedRows rows(String weight, long cols) {
        synchronized (held) {
            CompensatedRows rows = held.get(weight);
            if (rows == null) {
                if (held.size() >= HELD) {
                    held.remove(held.keySet().iterator().next());
                }
                rows = CompensatedRows.of(rounding.moments().of(weight, cols), rounding.gptq())
                        .orElseThrow(
                                () -> InputMoments.fault(weight, "the second moment is not positive semidefinite"));
                held.put(weight, rows);
            }
            return rows;
        }
    }

    /** Adds the errors of a tile. */
    void add(String weight, long fromRow, CompensatedRows.Errors tile) {
        errors.computeIfAbsent(weight, _ -> new ConcurrentSkipListMap<>()).put(fromRow, tile);
    }

    /** The errors of all weights that this run wrote, in the order of the plan. */
    List<RoundedError> errors(CheckpointPlan plan) {
        List<RoundedError> all = new ArrayList<>();
        for (ShardPlan shard : plan.shards()) {
            for (TensorStep step : shard.steps()) {
                NavigableMap<Long, CompensatedRows.Errors> tiles = errors.get(step.name());
                if (tiles != null) { // summed in the order of the rows, whatever thread was first
                    double error = 0;
                    double nearest = 0;
                    for (CompensatedRows.Errors e : tiles.values()) {
                        error += e.error();
                        nearest += e.nearest();
                    }
                    all.add(new RoundedError(step.name(), error, nearest));
                }
            }
        }
        return all;
    }
}
