package dev.octet.trainer.optimizer;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.rule.AdafactorRule;
import dev.octet.trainer.rule.LambRule;
import dev.octet.trainer.rule.MuonRule;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * An optimizer and its hyperparameters, except for the learning rate, which varies by step. Maths, names and defaults are those of the library that each names,
 * torch where none is named.
 */
public sealed interface Optimizer {
    /** Weight decay of parameters that are not exempt. */
    double weightDecay();

    /** This optimizer with another weight decay. */
    Optimizer withWeightDecay(double decay);

    /** The buffers of a parameter in F32, by their names in the {@code state_dict} of its library. */
    Map<String, OperandType> memory(OperandType p);

    /** Its name, for messages. */
    String title();

    /**
     * The optimizer of a parameter.
     *
     * @param lookedUp whether its rows are looked up by numbers: an embedding
     */
    default Optimizer of(String name, OperandType p, boolean lookedUp) {
        return this;
    }

    /** Whether a step is as long as the learning rate says, however large gradients are; of SGD it is as long as these. */
    default boolean normalizes() {
        return !(this instanceof Sgd);
    }

    /** The learning rate of a step, of a tensor that nothing scales; {@code t} counts from 1. */
    default double rate(double lr, long t) {
        return lr;
    }

    /**
     * An optimizer that updates each element by itself, apart from a number that it may measure for a tensor. Its buffers, the parameter and its gradient may be kept in
     * any form.
     */
    sealed interface Elementwise extends Optimizer {
        @Override
        Elementwise withWeightDecay(double decay);

        /** Names of the buffers; each has the parameter's shape. */
        List<String> memory();

        @Override
        default Map<String, OperandType> memory(OperandType p) {
            Map<String, OperandType> all = new LinkedHashMap<>();
            memory().forEach(name -> all.put(name, p.as(DType.F32)));
            return all;
        }
    }

    /**
     * torch.optim.SGD.
     *
     * @param momentum 0 by default, which needs no buffer
     * @param dampening 0 by default
     * @param weightDecay 0 by default; added to the gradient
     * @param nesterov needs momentum and no dampening
     */
    record Sgd(double momentum, double dampening, double weightDecay, boolean nesterov) implements Elementwise {
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
        public String title() {
            return "SGD";
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
    record Adam(double beta1, double beta2, double eps, double weightDecay, Variant variant) implements Elementwise {
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
        public String title() {
            return switch (variant) {
                case ADAM -> "Adam";
                case ADAMW -> "AdamW";
                case STABLE_ADAMW -> "StableAdamW";
            };
        }

        @Override
        public List<String> memory() {
            return List.of("exp_avg", "exp_avg_sq");
        }
    }

    /**
     * AdamW whose learning rate is a multiple of the run's: the part of {@link Muon} for parameters that are not hidden matrices.
     *
     * @param multiple of the run's learning rate
     */
    record Scaled(Adam adam, double multiple) implements Elementwise {
        public Scaled {
            require(adam.variant() == Variant.ADAMW && multiple >= 0, adam.title() + " at " + multiple);
        }

        @Override
        public double weightDecay() {
            return adam.weightDecay();
        }

        @Override
        public Scaled withWeightDecay(double decay) {
            return new Scaled(adam.withWeightDecay(decay), multiple);
        }

        @Override
        public String title() {
            return adam.title();
        }

        @Override
        public List<String> memory() {
            return adam.memory();
        }
    }

    /** Adam or AdamW whose first beta is given anew for each step ({@link UpdateProgram#beta1}). */
    record Cycled(Adam adam) implements Elementwise {
        /** With the second beta that DeepSpeed's OneCycle sets. */
        static Cycled of(Adam a) {
            return new Cycled(new Adam(a.beta1(), OneCycle.BETA2, a.eps(), a.weightDecay(), a.variant()));
        }

        public Cycled {
            require(adam.variant() != Variant.STABLE_ADAMW, adam.title() + " with a beta that moves");
        }

        @Override
        public double weightDecay() {
            return adam.weightDecay();
        }

        @Override
        public Cycled withWeightDecay(double decay) {
            return new Cycled(adam.withWeightDecay(decay));
        }

        @Override
        public String title() {
            return adam.title();
        }

        @Override
        public List<String> memory() {
            return adam.memory();
        }
    }

    /**
     * LAMB: AdamW whose learning rate of a tensor is multiplied by the norm of the tensor over that of its update.
     *
     * @param beta1 0.9 by default
     * @param beta2 0.999 by default
     * @param eps 1e-6 by default in apex, 1e-8 in DeepSpeed
     * @param weightDecay 0.01 by default in apex, 0 in DeepSpeed
     */
    record Lamb(double beta1, double beta2, double eps, double weightDecay, LambRule rule) implements Elementwise {
        public Lamb {
            require(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, "betas " + beta1 + ", " + beta2);
            require(eps >= 0 && weightDecay >= 0, "eps " + eps + ", weight decay " + weightDecay);
        }

        @Override
        public Lamb withWeightDecay(double decay) {
            return new Lamb(beta1, beta2, eps, decay, rule);
        }

        @Override
        public String title() {
            return "LAMB";
        }

        @Override
        public List<String> memory() {
            return List.of("exp_avg", "exp_avg_sq");
        }
    }

    /**
     * Lion of google/automl.
     *
     * @param beta1 0.9 by default
     * @param beta2 0.99 by default
     * @param weightDecay 0 by default; shrinks the parameter
     */
    record Lion(double beta1, double beta2, double weightDecay) implements Elementwise {
        public Lion {
            require(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, "betas " + beta1 + ", " + beta2);
            require(weightDecay >= 0, "weight decay " + weightDecay);
        }

        @Override
        public Lion withWeightDecay(double decay) {
            return new Lion(beta1, beta2, decay);
        }

        @Override
        public String title() {
            return "Lion";
        }

        @Override
        public List<String> memory() {
            return List.of("exp_avg");
        }
    }

    /**
     * torch.optim.Adagrad, whose sums start at 0.
     *
     * @param lrDecay 0 by default: the learning rate is divided by 1 + lrDecay for each step before
     * @param eps 1e-10 by default
     * @param weightDecay 0 by default; added to the gradient
     */
    record Adagrad(double lrDecay, double eps, double weightDecay) implements Elementwise {
        public Adagrad {
            require(lrDecay >= 0 && eps >= 0 && weightDecay >= 0, lrDecay + ", eps " + eps + ", " + weightDecay);
        }

        @Override
        public Adagrad withWeightDecay(double decay) {
            return new Adagrad(lrDecay, eps, decay);
        }

        @Override
        public String title() {
            return "Adagrad";
        }

        @Override
        public List<String> memory() {
            return List.of("sum");
        }
    }

    /** Adafactor of transformers or torch. */
    record Adafactor(AdafactorRule rule, double weightDecay) implements Optimizer {
        public Adafactor {
            require(weightDecay >= 0, "weight decay " + weightDecay);
        }

        @Override
        public Adafactor withWeightDecay(double decay) {
            return new Adafactor(rule, decay);
        }

        @Override
        public String title() {
            return "Adafactor";
        }

        @Override
        public Map<String, OperandType> memory(OperandType p) {
            return rule.memory(p);
        }

        @Override
        public double rate(double lr, long t) {
            return rule.rate(lr, (double) t);
        }
    }

    /**
     * torch.optim.Muon for hidden matrices, AdamW for the rest.
     *
     * @param weightDecay 0.1 by default; shrinks the parameter
     * @param others of all other parameters
     * @param match the matrices, by patterns found anywhere in their names; empty for all that are not {@link #HEADS_AND_TABLES} and not looked up
     */
    record Muon(MuonRule rule, double weightDecay, Scaled others, List<Pattern> match) implements Optimizer {
        /** Names of embeddings and output layers, as models of transformers have them. */
        public static final Pattern HEADS_AND_TABLES =
                Pattern.compile("embed|lm_head|wte|wpe|classifier|score|qa_outputs|cls\\.", Pattern.CASE_INSENSITIVE);

        public Muon {
            require(weightDecay >= 0, "weight decay " + weightDecay);
            match = List.copyOf(match);
        }

        @Override
        public Muon withWeightDecay(double decay) {
            return new Muon(rule, decay, others, match);
        }

        @Override
        public String title() {
            return "Muon";
        }

        @Override
        public Map<String, OperandType> memory(OperandType p) {
            return Map.of("momentum_buffer", p.as(DType.F32));
        }

        @Override
        public Optimizer of(String name, OperandType p, boolean lookedUp) {
            boolean hidden = match.isEmpty()
                    ? !lookedUp && !HEADS_AND_TABLES.matcher(name).find()
                    : match.stream().anyMatch(m -> m.matcher(name).find());
            return hidden && p.shape().rank() == 2 ? this : others;
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
