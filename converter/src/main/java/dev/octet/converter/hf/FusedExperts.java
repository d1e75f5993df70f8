package dev.octet.converter.hf;

import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;

/**
 * The weights of all experts of a layer in one tensor, as some files have them: {@code experts.gate_up_proj} and {@code experts.down_proj} with three
 * axes. Each expert's part becomes a constant of its own, a view of the tensor, under the name that files with a matrix for each expert have. What
 * writes a folder joins them again.
 */
final class FusedExperts {
    private FusedExperts() {}

    /**
     * Cuts what a file has.
     *
     * @param module what the experts are called together
     */
    static void cut(
            CheckpointParameters parameters, Mixture.Expert expert, String module, int experts, int hidden, int inner) {
        if (expert.isFused()) {
            for (String linear : List.of("gate_up_proj", "down_proj")) {
                boolean up = linear.equals("gate_up_proj");
                long in = up ? hidden : inner;
                long out = up ? 2L * inner : hidden;
                each(parameters, module, linear, Shape.of(experts, in, out), linear, Shape.of(in, out));
                parameters.keepWhole(module + "." + linear);
                if (expert == Mixture.Expert.CLAMPED) {
                    each(parameters, module, linear + "_bias", Shape.of(experts, out), linear + "_bias", Shape.of(out));
                    parameters.keepWhole(module + "." + linear + "_bias");
                }
            }
            return;
        }
        List<CheckpointParameters.Part> halves = new ArrayList<>();
        for (int e = 0; e < experts; e++) {
            halves.add(new CheckpointParameters.Part(
                    module + "." + e + "." + expert.gate() + ".weight", Shape.of(inner, hidden)));
            halves.add(new CheckpointParameters.Part(
                    module + "." + e + "." + expert.up() + ".weight", Shape.of(inner, hidden)));
        }
        parameters.cut(module + ".gate_up_proj", Shape.of(experts, 2L * inner, hidden), halves);
        each(
                parameters,
                module,
                "down_proj",
                Shape.of(experts, hidden, inner),
                expert.down() + ".weight",
                Shape.of(hidden, inner));
    }

    private static void each(
            CheckpointParameters parameters, String module, String fused, Shape whole, String name, Shape part) {
        List<CheckpointParameters.Part> parts = new ArrayList<>();
        for (int e = 0; e < whole.dim(0); e++) {
            parts.add(new CheckpointParameters.Part(module + "." + e + "." + name, part));
        }
        parameters.cut(module + "." + fused, whole, parts);
    }
}
