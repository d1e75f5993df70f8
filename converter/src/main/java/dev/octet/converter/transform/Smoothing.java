package dev.octet.converter.transform;

import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.converter.checkpoint.TensorRole;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.merge.WeightDelta.Axis;
import dev.octet.quant.transform.SmoothFactors;
import dev.octet.quant.transform.Transform;
import dev.octet.quant.transform.WeightStep;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;

/** SmoothQuant on a model: the factors of each norm's channels, folded into the norm and the Linears behind it. */
final class Smoothing {
    private Smoothing() {}

    /**
     * Adds SmoothQuant to what is done to a model.
     *
     * @throws UnsupportedModelException when no Linear reads a norm whose output goes nowhere else
     * @throws InvalidDataException when the statistics lack the channels of an input
     */
    static void add(
            Transform.SmoothQuant how, ModelStructure structure, TransformSources sources, ModelTransform target) {
        List<String> reasons = new ArrayList<>();
        boolean any = false;
        for (InputSite site : structure.sites()) {
            List<String> modules =
                    site.readers().stream().map(GraphLinear::module).toList();
            if (areHeads(site)) {
                continue;
            }
            if (site.maker() instanceof InputSite.Norm norm) {
                any = true;
                float[] inputs = sources.requireAmax(modules.getFirst(), site.channels());
                Supplier<double[]> factors = new Once<>(() -> factors(site, inputs, how.alpha(), sources));
                fold(how.text(), site, norm, factors, target);
            } else {
                String reason = site.maker() instanceof InputSite.Other other
                        ? other.text()
                        : "the input comes from " + site.maker().text() + "; SmoothQuant divides the output of norms";
                modules.forEach(m -> target.leave(m, reason));
                reasons.add(reason);
            }
        }
        if (!any) {
            throw new UnsupportedModelException(
                    "SmoothQuant has no norm to fold its factors into: "
                            + reasons.stream().findFirst().orElse("the model has no Linear"),
                    sources.where(),
                    "models that normalise behind the residual (BERT) have none; --transform awq folds into v_proj and"
                            + " up_proj, too");
        }
    }

    /** Whether only heads read it, which are not quantised. */
    static boolean areHeads(InputSite site) {
        return site.readers().stream()
                .allMatch(l -> LinearNames.role(l.weight(), Shape.of(l.out(), l.in())) != TensorRole.LINEAR);
    }

    private static double[] factors(InputSite site, float[] inputs, double alpha, TransformSources sources) {
        float[] weights = new float[site.channels()];
        for (GraphLinear l : site.readers()) {
            float[] amax = sources.weights().inputAmax(l, sources.threads());
            for (int i = 0; i < weights.length; i++) {
                weights[i] = Math.max(weights[i], amax[i]);
            }
        }
        return SmoothFactors.of(inputs, weights, alpha);
    }

    /** Divides the channels of a site by factors and multiplies the columns that read them. */
    static void fold(
            String transform,
            InputSite site,
            InputSite.Maker maker,
            Supplier<double[]> factors,
            ModelTransform target) {
        String into = maker.text();
        String by = "s of " + into + " (" + transform + ")";
        switch (maker) {
            case InputSite.Norm norm -> {
                Supplier<double[]> inverse = new Once<>(() -> inverse(factors.get()));
                target.step(norm.weight(), new WeightStep.Scale("/ " + by, Axis.COLUMN, inverse, norm.around()));
                if (norm.bias() != null) {
                    target.step(norm.bias(), new WeightStep.Scale("/ " + by, Axis.COLUMN, inverse, 0));
                }
            }
            case InputSite.Rows rows -> {
                GraphLinear l = rows.linear();
                Supplier<double[]> inverse = new Once<>(() -> spread(inverse(factors.get()), rows));
                target.step(l.weight(), new WeightStep.Scale("outputs / " + by, l.outputs(), inverse, 0));
                if (l.bias() != null) {
                    target.step(l.bias(), new WeightStep.Scale("/ " + by, Axis.COLUMN, inverse, 0));
                }
                if (rows.ofHeads()) {
                    target.changeValues(l.module());
                }
            }
            case InputSite.Other other -> throw new IllegalArgumentException(other.text());
        }
        List<String> readers = new ArrayList<>();
        for (GraphLinear l : site.readers()) {
            target.step(l.weight(), new WeightStep.Scale("inputs x " + by, l.inputs(), factors, 0));
            target.input(l.module(), InputChange.divided(factors));
            readers.add(l.module());
        }
        target.fold(
                new TransformStep(transform, into, readers, "channels of " + into + " / s, inputs of the Linears x s"));
    }

    private static double[] inverse(double[] factors) {
        double[] inverse = new double[factors.length];
        for (int i = 0; i < inverse.length; i++) {
            inverse[i] = 1 / factors[i];
        }
        return inverse;
    }

    /** Factors of a value's channels as factors of the Linear's: ones for channels that go elsewhere. */
    private static double[] spread(double[] ofValue, InputSite.Rows rows) {
        double[] all = new double[rows.linear().out()];
        Arrays.fill(all, 1);
        for (int c = 0; c < ofValue.length; c++) {
            all[rows.first() + rows.of(c)] = ofValue[c];
        }
        return all;
    }
}
