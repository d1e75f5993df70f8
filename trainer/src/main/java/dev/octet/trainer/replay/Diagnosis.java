package dev.octet.trainer.replay;

import dev.octet.quant.recipe.ProductOperand;
import dev.octet.trainer.precision.OperandChange;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * The answer of an {@link Examination}.
 *
 * @param sentence the verdict in a sentence
 * @param steps that were replayed: the first and the last, from 1
 * @param layers number of Linears in FP8
 * @param culprits in the order they were found
 * @param suspects where nothing or not all was found, the products among which a culprit is
 * @param feature the feature at fault, as its key in the configuration: {@code fused_norm}; empty with every other verdict
 * @param cure changes of operands by the id of a Linear's node, as {@link dev.octet.trainer.precision.Fp8Policy#with} takes them; empty
 *     where there is nothing to cure, or no cure is known
 * @param proof the replay with the cure, which is healthy; empty where there is none
 * @param spikes steps in which loss or gradients of the reference jump
 * @param toFind replays until the guilty products were known
 * @param replays all replays of the examination, those found in the log included
 * @param complete false where the budget was spent before the examination was at its end
 */
public record Diagnosis(
        Verdict verdict,
        String sentence,
        List<Long> steps,
        int layers,
        List<Culprit> culprits,
        List<LayerProduct> suspects,
        String feature,
        Map<String, Map<ProductOperand, OperandChange>> cure,
        Optional<Experiment> proof,
        List<Long> spikes,
        Evidence evidence,
        int toFind,
        int replays,
        boolean complete) {
    public Diagnosis {
        steps = List.copyOf(steps);
        culprits = List.copyOf(culprits);
        suspects = List.copyOf(suspects);
        Map<String, Map<ProductOperand, OperandChange>> sorted = new TreeMap<>();
        cure.forEach((node, c) -> sorted.put(node, Collections.unmodifiableMap(new TreeMap<>(c))));
        cure = Collections.unmodifiableMap(sorted);
        spikes = List.copyOf(spikes);
    }

    /** Of a run that computes nothing in FP8. */
    static Diagnosis withoutFp8(Excerpt excerpt) {
        Diagnosis none = new Diagnosis(
                Verdict.NO_FP8,
                "",
                List.of(excerpt.firstStep(), excerpt.firstStep() + excerpt.steps() - 1),
                0,
                List.of(),
                List.of(),
                "",
                Map.of(),
                Optional.empty(),
                List.of(),
                new Evidence(null, null, List.of(), List.of()),
                0,
                0,
                true);
        return none.withSentence(VerdictText.of(none));
    }

    /** This with a sentence. */
    Diagnosis withSentence(String newSentence) {
        return new Diagnosis(
                verdict,
                newSentence,
                steps,
                layers,
                culprits,
                suspects,
                feature,
                cure,
                proof,
                spikes,
                evidence,
                toFind,
                replays,
                complete);
    }
}
