package dev.octet.trainer.observe;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.Product;
import java.util.List;
import java.util.Set;

/** What a section does with each of its layers; one for each tensor, where a feature of the file names several. */
public sealed interface Feature {
    /** A feature that reads a tensor in some iterations and changes no number. */
    sealed interface Reading extends Feature {
        /** What it reads. */
        ObservedTensor tensor();

        /** When. */
        StepGate gate();
    }

    /** A feature that changes how products are computed. */
    sealed interface Change extends Feature {}

    /** {@code LogTensorStats}: statistics of a tensor before it is quantised. */
    record LogTensorStats(ObservedTensor tensor, List<TensorStatistic> stats, StepGate gate) implements Reading {
        public LogTensorStats {
            stats = List.copyOf(stats);
        }
    }

    /** {@code LogFp8TensorStats}: what casts of an operand to FP8 lose, in the layer's recipe or in another. */
    record LogFp8TensorStats(ObservedTensor tensor, List<CastStatistic> stats, StepGate gate) implements Reading {
        public LogFp8TensorStats {
            stats = List.copyOf(stats);
        }
    }

    /** {@code LogNvfp4TensorStats}: what casts of an operand to NVFP4 would lose. */
    record LogNvfp4TensorStats(ObservedTensor tensor, List<CastStatistic.Measure> stats, StepGate gate)
            implements Reading {
        public LogNvfp4TensorStats {
            stats = List.copyOf(stats);
        }
    }

    /**
     * {@code DumpTensors}: a tensor, written to a file.
     *
     * @param highPrecision whether as it is before it is quantised
     * @param quantised whether as codes with their scales
     */
    record DumpTensors(ObservedTensor tensor, boolean highPrecision, boolean quantised, StepGate gate)
            implements Reading {}

    /** {@code DisableQuantizationGEMM} or, of all three products, {@code DisableQuantizationLayer}. */
    record DisableQuantization(Set<Product> products) implements Change {
        public DisableQuantization {
            products = Set.copyOf(products);
        }
    }

    /** {@code PerTensorScaling}: an operand of a product has its scale from its own values, not from amaxes of earlier steps. */
    record PerTensorScaling(Product product, LinearTensor operand) implements Change {}

    /**
     * {@code FakeQuant}: a product is computed in high precision, one of its operands or its result is quantised and widened again.
     *
     * @param tensor an operand or the result of the product
     */
    record FakeQuant(Product product, ObservedTensor tensor, Format format) implements Change {}

    /** Formats of {@link FakeQuant}: one scale for the tensor, or one for each 32 elements along its last axis. */
    enum Format {
        FP8E4M3(Float8Format.E4M3FN, false),
        FP8E5M2(Float8Format.E5M2, false),
        MXFP8E4M3(Float8Format.E4M3FN, true),
        MXFP8E5M2(Float8Format.E5M2, true);

        private final Float8Format codes;
        private final boolean blocks;

        Format(Float8Format codes, boolean blocks) {
            this.codes = codes;
            this.blocks = blocks;
        }

        /** What values are rounded to. */
        public Float8Format codes() {
            return codes;
        }

        /** Whether each 32 elements have their own E8M0 scale. */
        public boolean hasBlocks() {
            return blocks;
        }
    }
}
