package dev.octet.converter.plan;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.cast.ElementCast.Range;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.AffineScale;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.TensorStatistics;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * The activation scales a plan needs, solved from statistics, and the plan without the layers whose scale is unknown.
 *
 * @param plan decisions after looking at the statistics: a Linear whose input was always zero, or never finite, is kept
 * @param scales one per {@link Plan#taps()} of that plan
 */
public record ActivationScales(Plan plan, Map<String, ActivationScale> scales) {
    public ActivationScales {
        scales = Collections.unmodifiableMap(new LinkedHashMap<>(scales));
    }

    /**
     * Solves every scale.
     *
     * @throws InvalidDataException when the statistics lack a value the plan needs: they are of another model or plan
     */
    public static ActivationScales solve(Plan plan, Statistics statistics, Calibrator calibrator) {
        Map<String, OperandSpec> operands = plan.measured();
        Map<String, ActivationScale> scales = new LinkedHashMap<>();
        Map<String, String> refusals = new LinkedHashMap<>();
        for (String tap : plan.taps()) {
            TensorStatistics t = statistics.tensors().get(tap);
            if (t == null) {
                throw new InvalidDataException(
                        "the statistics have nothing on value '" + tap + "'",
                        "statistics of " + statistics.tensors().size() + " values",
                        "calibrate this model again; its --keep must not be wider than the one used now");
            }
            Optional<String> refusal = t.whyNoScale();
            if (refusal.isPresent()) {
                refusals.put(tap, refusal.get());
            } else {
                scales.put(
                        tap,
                        scale(
                                tap,
                                t.withoutMasks(),
                                calibrator,
                                Objects.requireNonNull(operands.get(tap)).type()));
            }
        }
        return new ActivationScales(without(plan, refusals), scales);
    }

    /**
     * Takes the scales that a training run left. Linears that read the same value share the largest of their scales; Linears without a
     * scale are kept.
     *
     * @param scales by node id of the Linear
     */
    public static ActivationScales given(Plan plan, Map<String, LinearScales> scales) {
        Map<String, ActivationScale> chosen = new LinkedHashMap<>();
        Map<String, String> kept = new LinkedHashMap<>();
        for (Decision.Converted d : plan.converted(LayerKind.LINEAR)) {
            OperandSpec operand = plan.recipe(d).input();
            if (operand == null || !plan.recipe(d).needsStatistics()) {
                continue;
            }
            LinearScales s = scales.getOrDefault(d.node(), LinearScales.none("the run observed no scale of its input"));
            Float scale = s.inputScale();
            if (scale == null) {
                kept.put(d.node(), s.reason());
                continue;
            }
            double clip = (double) scale * operand.type().maxValue();
            chosen.merge(
                    d.input(),
                    new ActivationScale(d.input(), s.inputAmax(), clip, scale, s.inputZeroPoint(), 0),
                    (a, b) -> a.scale() >= b.scale() ? a : b);
        }
        return new ActivationScales(plan.keeping(kept), chosen);
    }

    private static ActivationScale scale(String tap, TensorStatistics t, Calibrator calibrator, QuantType type) {
        double clip = calibrator.clip(t, type);
        if (!type.hasZeroPoint()) {
            return new ActivationScale(tap, t.amax(), clip, (float) (clip / type.maxValue()), t.shareAbove(clip));
        }
        Range range = Range.ZERO.with((float) Math.max(t.min(), -clip)).with((float) Math.min(t.max(), clip));
        AffineScale affine = AffineScale.of(range, type, DType.F32);
        return new ActivationScale(tap, t.amax(), clip, affine.scale(), affine.zeroPoint(), t.shareAbove(clip));
    }

    /** The plan with the Linears on refused inputs kept; a normalisation that is left without an FP8 reader is kept as well. */
    private static Plan without(Plan plan, Map<String, String> refusals) {
        if (refusals.isEmpty()) {
            return plan;
        }
        List<Decision> decisions = new ArrayList<>();
        for (Decision d : plan.decisions()) {
            String reason = d instanceof Decision.Converted c && plan.recipe(c).input() != null
                    ? quantisedValues(c).stream()
                            .map(refusals::get)
                            .filter(Objects::nonNull)
                            .findFirst()
                            .orElse(null)
                    : null;
            decisions.add(reason == null ? d : new Decision.Kept(d.node(), d.kind(), reason));
        }
        return new Plan(plan.recipe(), decisions, plan.others());
    }

    /** The values that a converted layer needs scales for: the input of a Linear, the output of a normalisation, operands of a product. */
    private static List<String> quantisedValues(Decision.Converted c) {
        if (!c.kind().forms().isEmpty()) {
            return c.measured();
        }
        return List.of(c.kind() == LayerKind.LINEAR ? c.input() : c.output());
    }

    /**
     * The scale as the file will hold it: rounded to the type the model computes in, because ONNX (opset 19 to 22) requires scales of the
     * activation's own type.
     */
    static Tensor stored(float scale, String name, DType dtype, Arena arena) {
        Tensor t = Tensor.allocate(arena, new TensorSpec(name, dtype, Shape.SCALAR));
        switch (dtype) {
            case F16 -> t.bytes().set(Tensor.I16_LE, 0, Half.fromFloat(scale));
            case BF16 -> t.bytes().set(Tensor.I16_LE, 0, BFloat16.fromFloat(scale));
            default -> t.bytes().set(Tensor.F32_LE, 0, scale);
        }
        return t;
    }
}
