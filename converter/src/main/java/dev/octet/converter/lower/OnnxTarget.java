package dev.octet.converter.lower;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.util.Arrays;
import java.util.Optional;

/** Who will load the file. */
public enum OnnxTarget {
    /**
     * ONNX Runtime with default session options: standard Q/DQ nodes around Gemm, spelled so that its optimiser does not turn
     * them into an integer operator (see {@link FlattenGemmForm}).
     */
    ONNXRUNTIME("onnxruntime", "loads and runs in ONNX Runtime with default session options"),
    /** TensorRT: Q/DQ directly around MatMul, scalar activation scales, weights as FP8 constants behind a DQ. */
    TENSORRT("tensorrt", "explicit Q/DQ by TensorRT's rules");

    private final String label;
    private final String summary;

    OnnxTarget(String label, String summary) {
        this.label = label;
        this.summary = summary;
    }

    /** What users type. */
    public String label() {
        return label;
    }

    /** One line for help. */
    public String summary() {
        return summary;
    }

    /**
     * A recipe as this target loads it: TensorRT takes no zero points other than 0.
     *
     * @throws InvalidOptionException when the target has no form for the recipe
     */
    public Recipe suited(Recipe recipe) {
        OperandSpec input = recipe.input();
        if (this == TENSORRT && recipe.weight().type().hasZeroPoint()) {
            throw new InvalidOptionException(
                    "TensorRT takes no zero points of weights",
                    "recipe " + recipe.name() + ", target " + label,
                    "give --recipe int4-weight-only, or --target onnxruntime");
        }
        if (this != TENSORRT || input == null || !input.type().isInteger()) {
            return recipe;
        }
        if (input.isDynamic()) {
            throw new InvalidOptionException(
                    "TensorRT has no integer products with scales found at run time",
                    "recipe " + recipe.name() + ", target " + label,
                    "give --recipe int8 with --calibration FILE, or --target onnxruntime");
        }
        if (recipe.weight().type().bits() == Recipe.INT4_BITS) {
            throw new InvalidOptionException(
                    "TensorRT has weights in int4 with inputs in floats alone",
                    "recipe " + recipe.name() + ", target " + label,
                    "give --recipe int4-weight-only or int8, or --target onnxruntime");
        }
        return Recipes.GRAPH_INT8_SYMMETRIC;
    }

    /** The target users call {@code label}. */
    public static Optional<OnnxTarget> named(String label) {
        return Arrays.stream(values()).filter(t -> t.label.equals(label)).findFirst();
    }
}
