package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.HeadCounts;
import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Weights that cannot be split onto the devices asked for. The splitting is that of vLLM: products like q, k, v, gate and up by outputs, o
 * and down by inputs; every part of a weight must consist of whole blocks, and where outputs are merged, so must each output on its own
 * (with one device, all but the last).
 */
final class TensorParallel {
    static final CheckpointRule RULE = Demand.error("tensor-parallel", Consumer.ENGINES)
            .text("Blocks and groups of every weight divide the part that each device gets, for every number of"
                    + " devices asked for.")
            .fix("use one of the possible numbers of devices, or quantise per channel, which splits at any row")
            .source("vllm-project/vllm#17569, vllm-project/vllm#54178, vllm-project/vllm#52997,"
                    + " vllm-project/vllm#33327, vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py")
            .onCheckpoints(TensorParallel::check);

    private static final int MOST_DEVICES = 64;

    private TensorParallel() {}

    private static void check(CheckpointSubject subject, Report report) {
        HeadCounts heads = HeadCounts.of(subject.config()).orElse(null);
        List<Integer> asked = subject.options().tensorParallel();
        String possible = null; // costs as much as the check, and is seldom reported
        for (int devices : asked.isEmpty() ? List.of(1) : asked) {
            for (LayerTensors layer : subject.quantized().toList()) {
                Optional<String> problem = problem(layer, devices, heads, subject);
                if (problem.isPresent()) {
                    possible = possible == null ? possible(subject) : possible;
                    report.add(
                            "weights cannot be split onto " + devices + (devices == 1 ? " device" : " devices") + "; "
                                    + possible,
                            layer.module(),
                            problem.get());
                }
            }
        }
    }

    private static String possible(CheckpointSubject subject) {
        List<Integer> legal = legal(subject);
        return legal.isEmpty()
                ? "no number of devices is possible"
                : "possible: " + legal.stream().map(String::valueOf).collect(Collectors.joining(", "));
    }

    /** Numbers of devices that a checkpoint can be split onto, powers of two; empty when nothing is quantised. */
    static List<Integer> legal(CheckpointSubject subject) {
        HeadCounts heads = HeadCounts.of(subject.config()).orElse(null);
        List<LayerTensors> layers = subject.quantized().toList();
        return layers.isEmpty() || subject.settings().groups().isEmpty()
                ? List.of()
                : IntStream.iterate(1, n -> n <= MOST_DEVICES, n -> 2 * n)
                        .filter(n -> layers.stream()
                                .allMatch(l -> problem(l, n, heads, subject).isEmpty()))
                        .boxed()
                        .toList();
    }

    /** Why a module cannot be split onto this many devices; empty when it can. */
    private static Optional<String> problem(
            LayerTensors layer, int devices, @Nullable HeadCounts heads, CheckpointSubject subject) {
        QuantSettings.Group group = subject.settings().group(layer.module());
        Shape shape = layer.shape();
        if (group == null || group.weights() == null || shape.rank() != 2) {
            return Optional.empty();
        }
        long blockRows = Math.max(1, group.weights().rows());
        long blockColumns =
                Math.max(1, Math.max(group.weights().columns(), group.weights().groupSize()));
        List<String> problems = new ArrayList<>();
        switch (Projections.of(layer.last())) {
            case BY_OUTPUT -> byOutput(layer, devices, heads, blockRows, problems);
            case BY_INPUT -> {
                if (shape.dim(1) % devices != 0 || (devices > 1 && shape.dim(1) / devices % blockColumns != 0)) {
                    problems.add(shape.dim(1) + " inputs / " + devices + " by blocks of " + blockColumns);
                }
            }
            case WHOLE, UNKNOWN -> {}
        }
        return problems.stream().findFirst();
    }

    private static void byOutput(
            LayerTensors layer, int devices, @Nullable HeadCounts heads, long block, List<String> problems) {
        long rows = layer.shape().dim(0);
        boolean keys = layer.last().equals("k_proj") || layer.last().equals("v_proj");
        // with fewer heads than devices, each device has a whole one
        long parts = keys && heads != null ? Math.min(devices, heads.keys()) : devices;
        if (layer.last().equals("q_proj") && heads != null && heads.queries() % devices != 0) {
            problems.add(heads.queries() + " heads / " + devices);
        } else if (rows % parts != 0) {
            problems.add(rows + " outputs / " + parts);
        } else if (rows / parts % block != 0 && (devices > 1 || isMergedBeforeLast(layer.last()))) {
            problems.add(rows + " outputs / " + parts + " = " + rows / parts + " by blocks of " + block);
        }
    }

    /** Merged with others that follow: only the last output may end in the middle of a block. */
    private static boolean isMergedBeforeLast(String last) {
        List<String> siblings = LinearNames.siblings("m." + last + ".weight");
        return siblings.size() > 1 && !last.equals("v_proj") && !last.equals("up_proj") && !last.equals("w3");
    }
}
