package dev.octet.trainer.observe;

import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.Product;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The six tensors of a Linear, under Transformer Engine's names: what its products read and what they make. */
public enum ObservedTensor {
    /** x, [tokens, in]. */
    ACTIVATION(LinearTensor.INPUT, null),
    /** dy, [tokens, out]. */
    GRADIENT(LinearTensor.GRAD_OUTPUT, null),
    /** W, [out, in]. */
    WEIGHT(LinearTensor.WEIGHT, null),
    /** y with its bias, [tokens, out]. */
    OUTPUT(null, Product.FPROP),
    /** dW, [out, in]. */
    WGRAD(null, Product.WGRAD),
    /** dx, [tokens, in]. */
    DGRAD(null, Product.DGRAD);

    private final @Nullable LinearTensor operand;
    private final @Nullable Product product;

    ObservedTensor(@Nullable LinearTensor operand, @Nullable Product product) {
        this.operand = operand;
        this.product = product;
    }

    /** As in files: {@code activation}. */
    public String label() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** All by label, in the order above. */
    public static Map<String, ObservedTensor> byLabel() {
        Map<String, ObservedTensor> all = new LinkedHashMap<>();
        Arrays.stream(values()).forEach(t -> all.put(t.label(), t));
        return all;
    }

    /** Which operand of the Linear's products it is; empty for what a product makes. */
    public Optional<LinearTensor> operand() {
        return Optional.ofNullable(operand);
    }

    /** The product that makes it; empty for operands. */
    public Optional<Product> product() {
        return Optional.ofNullable(product);
    }

    /** Whether a product reads it or makes it. */
    public boolean belongsTo(Product gemm) {
        return operand != null ? gemm.reads(operand) : gemm == product;
    }
}
