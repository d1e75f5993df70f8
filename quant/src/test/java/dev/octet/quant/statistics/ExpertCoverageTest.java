package dev.octet.quant.statistics;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.foreign.MemorySegment;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ExpertCoverageTest {
    private static TensorStatistics seen(int tokens) {
        StatisticsAccumulator a = new StatisticsAccumulator(TensorStatistics.EMPTY);
        if (tokens > 0) {
            BitSet all = new BitSet();
            all.set(0, tokens);
            a.addWithChannels(MemorySegment.ofArray(new float[tokens * 4]), 4, all, 4);
        }
        return a.snapshot();
    }

    @Test
    void tokens_are_counted_by_layer_and_experts_that_saw_none_are_named() {
        Map<String, TensorStatistics> tensors = new LinkedHashMap<>();
        tensors.put("model.layers.0.self_attn.q_proj", seen(9));
        for (String linear : List.of("w1", "w3", "w2")) {
            tensors.put("model.layers.0.mlp.experts.0." + linear, seen(7));
            tensors.put("model.layers.0.mlp.experts.1." + linear, seen(0));
            tensors.put("model.layers.0.mlp.experts.2." + linear, seen(2));
        }
        Statistics statistics = Statistics.of("model", new DataPart("data", "texts", 1, 1), tensors);
        List<ExpertCoverage> coverage = ExpertCoverage.of(statistics);
        assertEquals(List.of(new ExpertCoverage("model.layers.0.mlp.experts", List.of(7L, 0L, 2L))), coverage);
        assertEquals(List.of(1), coverage.getFirst().unseen());
    }
}
