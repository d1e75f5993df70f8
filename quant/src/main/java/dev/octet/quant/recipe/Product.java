package dev.octet.quant.recipe;

/** The three matrix products of a Linear {@code y = x Wᵀ} in training. */
public enum Product {
    /** {@code y = x Wᵀ}, sums over the inputs. */
    FPROP(LinearTensor.INPUT, LinearTensor.WEIGHT),
    /** {@code dx = dy W}, sums over the outputs. */
    DGRAD(LinearTensor.GRAD_OUTPUT, LinearTensor.WEIGHT),
    /** {@code dW = dyᵀ x}, sums over the tokens. */
    WGRAD(LinearTensor.GRAD_OUTPUT, LinearTensor.INPUT);

    private final LinearTensor left;
    private final LinearTensor right;

    Product(LinearTensor left, LinearTensor right) {
        this.left = left;
        this.right = right;
    }

    /** The left operand. */
    public LinearTensor left() {
        return left;
    }

    /** The right operand. */
    public LinearTensor right() {
        return right;
    }

    /** The axis of an operand that the sums of this product run along: -1, its innermost, or -2. */
    public int summedAxis(LinearTensor tensor) {
        return this == FPROP || (this == DGRAD && tensor == LinearTensor.GRAD_OUTPUT) ? -1 : -2;
    }

    /** Whether {@code tensor} is an operand. */
    public boolean reads(LinearTensor tensor) {
        return tensor == left || tensor == right;
    }
}
