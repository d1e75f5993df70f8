package dev.octet.converter.sensitivity;

import dev.octet.converter.plan.CompensatedRounding;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.Quantizer;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.gptq.BlockScales;
import dev.octet.quant.gptq.CompensatedRows;
import dev.octet.quant.gptq.Gptq;
import dev.octet.quant.gptq.GptqOptions;
import dev.octet.quant.gptq.GptqResult;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.ScaleSearch;
import dev.octet.quant.work.Workers;
import java.lang.foreign.Arena;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** Weights of Linears as [out, in] in F32, as they are and rounded. */
public final class LinearWeights {
    private LinearWeights() {}

    /** A weight of a canonical graph. */
    public static Tensor outIn(Graph graph, LinearLayer layer, int threads, Arena arena) {
        Tensor stored = Objects.requireNonNull(graph.initializers().get(layer.weight()))
                .tensor()
                .orElseThrow();
        long rows = layer.shape().dim(0);
        long cols = layer.shape().dim(1);
        Tensor weight = Tensor.allocate(arena, new TensorSpec(layer.weight(), DType.F32, layer.shape()));
        Workers.run(Math.toIntExact(rows), threads, row -> {
            for (long col = 0; col < cols; col++) {
                long from = layer.transposed() ? col * rows + row : row * cols + col;
                weight.bytes()
                        .set(
                                Tensor.F32_LE,
                                (row * cols + col) * Float.BYTES,
                                Floats.get(stored.dtype(), stored.bytes(), from));
            }
        });
        return weight;
    }

    /** A weight rounded to nearest and back, as F32. */
    public static Tensor nearest(LinearFormat format, Tensor outIn, Arena arena) {
        return RoundedWeight.of(outIn, format.weight(), arena);
    }

    /** Whether GPTQ rounds weights of this format. */
    public static boolean roundsWithCompensation(LinearFormat format) {
        Granularity granularity = format.weight().granularity();
        return !format.weight().twoLevels()
                && (granularity instanceof Granularity.PerChannel
                        || granularity instanceof Granularity.PerTensor
                        || (granularity instanceof Granularity.PerGroup
                                && format.weight().type().isInteger()));
    }

    /** A weight rounded by GPTQ and back, as F32; to nearest where GPTQ refuses it. */
    public static Tensor compensated(LinearFormat format, Tensor outIn, SecondMoment moment, int threads, Arena arena) {
        OperandSpec spec = format.weight()
                .scaledBy(CompensatedRounding.SCALES, format.weight().scaleType());
        Gptq gptq = Gptq.parallel(threads);
        GptqResult result = spec.granularity() instanceof Granularity.PerGroup
                ? gptq.quantizeGroups(outIn, true, moment, spec, GptqOptions.defaults(), arena)
                : gptq.quantize(outIn, true, moment, spec, GptqOptions.defaults(), arena);
        return switch (result) {
            case GptqResult.Done done -> Quantizer.parallel(threads).dequantize(done.tensor(), DType.F32, arena);
            case GptqResult.Refused _ -> nearest(format, outIn, arena);
        };
    }

    /**
     * A weight rounded as in a checkpoint and back, as F32.
     *
     * @param moment of its input
     * @param search of its scales
     * @param gptq rounds with compensation; null to round to nearest. A moment that is no second moment is not used
     */
    public static Tensor inCheckpoint(
            LinearFormat format,
            Tensor outIn,
            SecondMoment moment,
            ScaleSearch search,
            @Nullable GptqOptions gptq,
            Arena arena) {
        double[] energies = search == ScaleSearch.HESSIAN
                ? moment.dampedDiagonal((gptq == null ? GptqOptions.defaults() : gptq).damping())
                : null;
        CompensatedRows rows =
                gptq == null ? null : CompensatedRows.of(moment, gptq).orElse(null);
        return RoundedWeight.of(outIn, new BlockScales(format.weight(), search, energies), rows, arena);
    }
}
