package dev.octet.quant.recipe;

import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * One operand of one of a Linear's products: what can be quantised by itself. Written {@code dgrad.grad_output}.
 *
 * @param product the product
 * @param tensor one of its two operands
 */
public record ProductOperand(Product product, LinearTensor tensor) implements Comparable<ProductOperand> {
    /** All six, product by product. */
    public static final List<ProductOperand> ALL = List.of(
            new ProductOperand(Product.FPROP, LinearTensor.INPUT),
            new ProductOperand(Product.FPROP, LinearTensor.WEIGHT),
            new ProductOperand(Product.DGRAD, LinearTensor.GRAD_OUTPUT),
            new ProductOperand(Product.DGRAD, LinearTensor.WEIGHT),
            new ProductOperand(Product.WGRAD, LinearTensor.GRAD_OUTPUT),
            new ProductOperand(Product.WGRAD, LinearTensor.INPUT));

    /** @throws IllegalArgumentException when the product does not read the tensor */
    public ProductOperand {
        if (!product.reads(tensor)) {
            throw new IllegalArgumentException(product + " does not read " + tensor);
        }
    }

    /** Both operands of a product. */
    public static List<ProductOperand> of(Product product) {
        return ALL.stream().filter(o -> o.product == product).toList();
    }

    /** The operands that a text names: both of {@code dgrad}, or the one of {@code dgrad.grad_output}; empty when it names none. */
    public static Optional<List<ProductOperand>> named(String text) {
        List<ProductOperand> named = ALL.stream()
                .filter(o -> o.toString().equals(text) || lower(o.product).equals(text))
                .toList();
        return named.isEmpty() ? Optional.empty() : Optional.of(named);
    }

    /**
     * The operand that {@link #toString} writes so.
     *
     * @throws IllegalArgumentException when there is none
     */
    public static ProductOperand parse(String text) {
        return ALL.stream()
                .filter(o -> o.toString().equals(text))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("'" + text + "' names none of " + ALL));
    }

    @Override
    public int compareTo(ProductOperand other) {
        return Integer.compare(ALL.indexOf(this), ALL.indexOf(other));
    }

    /** {@code dgrad.grad_output}. */
    @Override
    public String toString() {
        return lower(product) + "." + lower(tensor);
    }

    private static String lower(Enum<?> name) {
        return name.name().toLowerCase(Locale.ROOT);
    }
}
