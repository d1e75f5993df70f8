package dev.octet.quant.statistics;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * How many tokens the experts of one layer saw. The scales of an expert that saw few are guesses; one that saw none has no statistics at all.
 *
 * @param module what the experts are called together, {@code model.layers.0.block_sparse_moe.experts}
 * @param tokens seen by each expert, in the order of their numbers
 */
public record ExpertCoverage(String module, List<Long> tokens) {
    private static final Pattern EXPERT = Pattern.compile("^(.*\\.experts)\\.(?:expert_)?(\\d{1,6})\\.[^.]+$");

    public ExpertCoverage {
        tokens = List.copyOf(tokens);
    }

    /**
     * The coverage of all layers with experts, in the order of the statistics; empty for a model without.
     *
     * @param statistics of a checkpoint's modules, with channels
     */
    public static List<ExpertCoverage> of(Statistics statistics) {
        Map<String, TreeMap<Integer, Long>> seen = new LinkedHashMap<>();
        statistics.tensors().forEach((name, t) -> {
            Matcher m = EXPERT.matcher(name);
            ChannelStatistics channels = t.channels();
            if (m.matches() && (channels != null || t.count() == 0)) {
                long tokens = channels == null ? 0 : t.count() / channels.size();
                seen.computeIfAbsent(m.group(1), _ -> new TreeMap<>())
                        .merge(Integer.parseInt(m.group(2)), tokens, Math::max);
            }
        });
        List<ExpertCoverage> all = new ArrayList<>();
        seen.forEach((module, tokens) -> all.add(new ExpertCoverage(module, List.copyOf(tokens.values()))));
        return all;
    }

    /** Numbers of the experts that no token reached. */
    public List<Integer> unseen() {
        List<Integer> none = new ArrayList<>();
        for (int e = 0; e < tokens.size(); e++) {
            if (tokens.get(e) == 0) {
                none.add(e);
            }
        }
        return none;
    }
}
