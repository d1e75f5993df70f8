package dev.octet.bench.gpu;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.bench.gpu.RecordedWork.Kernel;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * What a recorded step takes on an H200 by the cost model, kind of node by kind of node.
 *
 * @param step its name: {@code gpt2 fp8}
 * @param millis of the step
 * @param kinds in the order of {@link #KINDS}, those of which there is a node
 */
record Prediction(RecordedStep step, double millis, List<Kind> kinds) {
    /** Patterns of names, as the first hour sums them; a node is of the first that matches. */
    private static final List<Pattern> KINDS = List.of(
                    "^product e",
                    "^product [^e]",
                    "^flash_forward",
                    "^flash_queries",
                    "^flash_keys",
                    "^attention_",
                    "^attention forward",
                    "^attention backward",
                    "^norm_forward",
                    "^norm_backward",
                    "^norm_(weights|biases)",
                    "^gelu_(transpose|amax|forward)",
                    "^gelu_(gradient|backward)",
                    "^gated_",
                    "^(unary|binary|product)_",
                    "^cast_(transpose|amax)_\\w+_e4m3",
                    "^cast_(transpose|amax)_\\w+_e5m2",
                    "^transpose_codes",
                    "^cast_forward",
                    "^cast_backward",
                    "^accumulate_",
                    "^column_",
                    "^round_row",
                    "^adam_",
                    "^square_sum",
                    "^(cross_entropy|score_gradient)_",
                    "^(box_copy|copy_rows|transpose_tiles)",
                    "^rotary_",
                    "^(gather|conv|reduce)_",
                    "^cuMemset",
                    "^cuMemcpy",
                    "")
            .stream()
            .map(Pattern::compile)
            .toList();

    /**
     * @param pattern of names
     * @param millis within the step
     * @param aloneMillis one by one, each with its launch: as tables of kernels are measured
     */
    record Kind(String pattern, int nodes, double millis, double aloneMillis) {}

    static Prediction of(RecordedStep step) {
        List<Kind> kinds = new ArrayList<>();
        for (Pattern pattern : KINDS) {
            List<RecordedWork> works = step.works().stream()
                    .filter(w -> kind(w.name()).equals(pattern))
                    .toList();
            if (!works.isEmpty()) {
                double micros = works.stream().mapToDouble(CostModel::micros).sum();
                kinds.add(new Kind(
                        pattern.pattern(),
                        works.size(),
                        (micros + works.size() * Assumptions.GAP_MICROS) / 1e3,
                        (micros + works.size() * Assumptions.ALONE_MICROS) / 1e3));
            }
        }
        return new Prediction(step, CostModel.stepMicros(step) / 1e3, kinds);
    }

    private static Pattern kind(String name) {
        return KINDS.stream().filter(k -> k.matcher(name).find()).findFirst().orElseThrow();
    }

    double aloneMillis() {
        return kinds.stream().mapToDouble(Kind::aloneMillis).sum();
    }

    /** For {@code bench/gpu/first-hour/predicted.json}: the step, and kernels one by one as the first hour measures them. */
    Map<String, Object> json() {
        Map<String, Object> kernels = new LinkedHashMap<>();
        for (Kind kind : kinds) {
            if (!kind.pattern().isEmpty()) {
                kernels.put(kind.pattern(), rounded(kind.aloneMillis()));
            }
        }
        Map<String, Object> json = new LinkedHashMap<>();
        json.put("ms", rounded(millis));
        json.put("peak_gb", rounded(step.peakBytes() / 1e9));
        json.put("kernels_ms", kernels);
        return json;
    }

    private static double rounded(double x) {
        return Math.round(x * 10) / 10.0;
    }

    /**
     * A table, beside what was measured where there is something.
     *
     * @param measured results of this step as {@code bench/run-gpu} writes them, of an earlier commit; empty where there are none
     */
    String text(JsonNode measured) {
        StringBuilder text = new StringBuilder();
        double before = measured.path("median_ms").asDouble();
        text.append(String.format(
                Locale.ROOT,
                "%s, batch of %d: %.1f ms a step, %.1f GB%s%n",
                step.name(),
                step.batch(),
                millis,
                step.peakBytes() / 1e9,
                before == 0
                        ? "; not measured"
                        : String.format(
                                Locale.ROOT,
                                "; measured before %.1f ms, %.1f GB",
                                before,
                                measured.path("peak_bytes").asDouble() / 1e9)));
        text.append(String.format(
                Locale.ROOT,
                "%-34s %6s %9s %9s %7s %9s %8s%n",
                "kind",
                "nodes",
                "ms",
                "alone",
                "nodes",
                "measured",
                "off"));
        double measuredAlone = 0;
        for (Kind kind : kinds) {
            double micros = 0;
            int runs = 0;
            for (JsonNode k : measured.path("kernels")) {
                if (kind(k.get("name").asText()).pattern().equals(kind.pattern())) {
                    micros += k.get("micros").asDouble();
                    runs += k.get("runs").asInt();
                }
            }
            measuredAlone += micros;
            text.append(String.format(
                    Locale.ROOT,
                    "%-34s %6d %9.2f %9.2f %s%n",
                    kind.pattern().isEmpty() ? "others" : kind.pattern(),
                    kind.nodes(),
                    kind.millis(),
                    kind.aloneMillis(),
                    runs == 0
                            ? ""
                            : String.format(
                                    Locale.ROOT,
                                    "%7d %9.2f %+7.0f%%",
                                    runs,
                                    micros / 1e3,
                                    100 * (kind.aloneMillis() / micros * 1e3 - 1))));
        }
        text.append(String.format(
                Locale.ROOT,
                "%-34s %6d %9.2f %9.2f %s%n",
                "together",
                step.works().size(),
                kinds.stream().mapToDouble(Kind::millis).sum(),
                aloneMillis(),
                measuredAlone == 0 ? "" : String.format(Locale.ROOT, "%7s %9.2f", "", measuredAlone / 1e3)));
        return text.toString();
    }

    /** Kernels whose traffic the model does not know. */
    static List<String> unknown(RecordedStep step) {
        return step.kernels().stream()
                .filter(k -> KernelTraffic.of(k).isEmpty())
                .map(Kernel::name)
                .distinct()
                .toList();
    }
}
