package dev.octet.trainer.step;

import dev.octet.trainer.activation.ActivationPlan;
import dev.octet.trainer.loss.CountedPositions;
import dev.octet.trainer.precision.Fp8Choice;
import dev.octet.trainer.program.Program;
import java.util.List;
import java.util.Map;

/**
 * Programs for micro-batches of certain shapes.
 *
 * @param program of the whole model; where a pipeline's stages compute it, each has a part
 * @param chunks what this rank computes
 * @param lossParts names of what the loss is made of, by term
 * @param loss name of the loss
 * @param fp8 which parts of the program compute in FP8
 * @param experts ids of the Linears of experts, by the node that computes them as one
 */
record LoadedPrograms(
        Program program,
        List<Chunk> chunks,
        String loss,
        Map<String, String> lossParts,
        CountedPositions counted,
        Fp8Choice fp8,
        Map<String, List<String>> experts,
        ActivationPlan activations) {
    void close() {
        chunks.forEach(Chunk::close);
    }
}
