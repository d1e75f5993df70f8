package dev.octet.trainer.optimizer;

import java.util.List;

/**
 * An optimizer and its hyperparameters, except for the learning rate, which varies by step. Maths, names and defaults are torch's.
 */
public sealed interface Optimizer {
    /** Weight decay of parameters that are not exempt. */
    double weightDecay();

    /** This optimizer with another weight decay. */
    Optimizer withWeightDecay(double decay);

    /** Names of the per-parameter buffers, as in torch's {@code state_dict}; each has the parameter's shape, in F32. */
    List<String> memory();

    /**
     * torch.optim.SGD.
     *
     * @param momentum 0 by default, which needs no buffer
     * @param dampening 0 by default
     * @param weightDecay 0 by default; added to the gradient
     * @param nesterov needs momentum and no dampening
     */
    record Sgd(double momentum, double dampening, double weightDecay, boolean nesterov) implements Optimizer {
        public Sgd {
            require(momentum >= 0 && weightDecay >= 0, "momentum " + momentum + ", weight decay " + weightDecay);
            require(
                    !nesterov || (momentum > 0 && dampening == 0),
                    "Nesterov with momentum " + momentum + " and dampening " + dampening);
        }

        /** torch's defaults with {@code momentum}. */
        public static Sgd of(double momentum) {
            return new Sgd(momentum, 0, 0, false);
        }

        @Override
        public Sgd withWeightDecay(double decay) {
            return new Sgd(momentum, dampening, decay, nesterov);
        }

        @Override
        public List<String> memory() {
            return momentum == 0 ? List.of() : List.of("momentum_buffer");
        }
    }

    /**
     * torch.optim.Adam, AdamW, or StableAdamW (Wortsman et al., arXiv:2304.13013, algorithm 2).
     *
     * @param beta1 0.9 by default
     * @param beta2 0.999 by default, 0.99 for StableAdamW
     * @param eps 1e-8 by default
     * @param weightDecay 0 by default for Adam, where it is added to the gradient; 0.01 for AdamW, where it shrinks the parameter
     */
    record Adam(double beta1, double beta2, double eps, double weightDecay, Variant variant) implements Optimizer {
        /** torch.optim.Adam with its defaults. */
        public static final Adam ADAM = new Adam(0.9, 0.999, 1e-8, 0, Variant.ADAM);
        /** torch.optim.AdamW with its defaults. */
        public static final Adam ADAMW = new Adam(0.9, 0.999, 1e-8, 0.01, Variant.ADAMW);
        /** StableAdamW with the betas of its authors and the weight decay of AdamW. */
        public static final Adam STABLE_ADAMW = new Adam(0.9, 0.99, 1e-8, 0.01, Variant.STABLE_ADAMW);

        public Adam {
            require(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, "betas " + beta1 + ", " + beta2);
            require(eps >= 0 && weightDecay >= 0, "eps " + eps + ", weight decay " + weightDecay);
        }

        @Override
        public Adam withWeightDecay(double decay) {
            return new Adam(beta1, beta2, eps, decay, variant);
        }

        @Override
        public List<String> memory() {
            return List.of("exp_avg", "exp_avg_sq");
        }
    }

    /** Kinds of Adam. */
    enum Variant {
        /** Weight decay is added to the gradient. */
        ADAM,
        /** Weight decay shrinks the parameter. */
        ADAMW,
        /** As AdamW; the update of a tensor is clipped. */
        STABLE_ADAMW
    }

    private static void require(boolean holds, String what) {
        if (!holds) {
            throw new IllegalArgumentException(what);
        }
    }
}
