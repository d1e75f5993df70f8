package dev.octet.trainer.precision;

import dev.octet.formats.error.InvalidDataException;

/**
 * By what the loss is multiplied before backward, and how that number moves with each optimizer step. Gradients are multiplied by
 * {@link #inverse} before they are used; a step whose gradients are not all finite is an overflow and is skipped.
 *
 * <p>A scaling is a constant; what it remembers is a {@link State}, which checkpoints hold.
 */
public sealed interface LossScaling {
    /**
     * What a scaling remembers. Those that have no use for a number leave it as it began.
     *
     * @param scale the multiplier
     * @param clean steps without overflow since the scale last changed (torch: {@code _growth_tracker}, Apex: {@code unskipped})
     * @param hysteresis overflows that are still tolerated (DeepSpeed: {@code cur_hysteresis})
     * @param steps optimizer steps so far, skipped ones included (DeepSpeed: {@code cur_iter})
     * @param lastOverflow number of the last step that overflowed, -1 for none
     */
    record State(float scale, int clean, int hysteresis, long steps, long lastOverflow) {
        static State at(float scale, int hysteresis) {
            return new State(scale, 0, hysteresis, 0, -1);
        }
    }

    /** The state before the first step. */
    State initial();

    /**
     * The state after an optimizer step.
     *
     * @param overflow whether a gradient was infinite or NaN
     * @throws InvalidDataException when the scale cannot become smaller (DeepSpeed)
     */
    State next(State state, boolean overflow);

    /** Whether gradients have to be looked at for overflow: not where the scale never moves. */
    default boolean isDynamic() {
        return true;
    }

    /** What gradients are multiplied by: 1 / scale, divided in FP64 and rounded to FP32. */
    default float inverse(State state) {
        return (float) (1.0 / state.scale());
    }

    /**
     * One number for the whole run.
     *
     * @param scale 1 for none
     */
    record Fixed(float scale) implements LossScaling {
        /** No loss scaling. */
        public static final Fixed NONE = new Fixed(1);

        public Fixed {
            if (!(scale > 0 && scale < Float.POSITIVE_INFINITY)) {
                throw new IllegalArgumentException("loss scale " + scale + " is not positive and finite");
            }
        }

        @Override
        public State initial() {
            return State.at(scale, 0);
        }

        @Override
        public State next(State state, boolean overflow) {
            return new State(scale, 0, 0, state.steps() + 1, overflow ? state.steps() : state.lastOverflow());
        }

        @Override
        public boolean isDynamic() {
            return false;
        }
    }

    /**
     * torch.amp.GradScaler. The scale has no lower end: it can become 0.
     *
     * @param initialScale 65536 by default
     * @param growthFactor above 1; 2 by default
     * @param backoffFactor below 1; 0.5 by default
     * @param growthInterval clean steps in a row before it grows; 2000 by default
     */
    record GradScaler(float initialScale, float growthFactor, float backoffFactor, int growthInterval)
            implements LossScaling {
        /** torch's defaults. */
        public static final GradScaler DEFAULT = new GradScaler(65536, 2, 0.5f, 2000);

        public GradScaler {
            if (!(growthFactor > 1) || !(backoffFactor < 1 && backoffFactor > 0) || growthInterval < 1) {
                throw new IllegalArgumentException("growth factor " + growthFactor + " must be above 1, backoff factor "
                        + backoffFactor + " between 0 and 1, growth interval " + growthInterval + " at least 1");
            }
        }

        @Override
        public State initial() {
            return State.at(initialScale, 0);
        }

        @Override
        public State next(State state, boolean overflow) {
            long steps = state.steps() + 1;
            if (overflow) {
                return new State(state.scale() * backoffFactor, 0, 0, steps, state.steps());
            }
            if (state.clean() + 1 < growthInterval) {
                return new State(state.scale(), state.clean() + 1, 0, steps, state.lastOverflow());
            }
            float grown = state.scale() * growthFactor;
            return new State(Float.isFinite(grown) ? grown : state.scale(), 0, 0, steps, state.lastOverflow());
        }
    }

    /**
     * DeepSpeed's DynamicLossScaler: an overflow first burns hysteresis and only then halves the scale; growth comes a window after the
     * last overflow and refills the hysteresis.
     *
     * @param initialScalePower the first scale is 2 to this; 16 by default
     * @param window clean steps before it doubles; 1000 by default
     * @param hysteresis overflows before it halves, that one included; 2 by default
     * @param consecutiveHysteresis whether every clean step refills the hysteresis; false by default
     * @param minScale 1 by default; an overflow there ends the run
     */
    record DeepSpeedScaler(
            int initialScalePower, int window, int hysteresis, boolean consecutiveHysteresis, float minScale)
            implements LossScaling {
        /** DeepSpeed's defaults. */
        public static final DeepSpeedScaler DEFAULT = new DeepSpeedScaler(16, 1000, 2, false, 1);

        private static final float FACTOR = 2;

        public DeepSpeedScaler {
            if (window < 1 || hysteresis < 1 || !(minScale > 0)) {
                throw new IllegalArgumentException("loss_scale_window " + window + ", hysteresis " + hysteresis
                        + " and min_loss_scale " + minScale + " must be positive");
            }
        }

        @Override
        public State initial() {
            return State.at((float) Math.scalb(1.0, initialScalePower), hysteresis);
        }

        @Override
        public State next(State state, boolean overflow) {
            return overflow ? afterOverflow(state) : afterCleanStep(state);
        }

        private State afterOverflow(State state) {
            boolean halves = hysteresis == 1 || state.hysteresis() == 1;
            if (halves && state.scale() == minScale) {
                throw new InvalidDataException(
                        "gradients are not finite with the smallest loss scale, " + minScale,
                        "optimizer step " + (state.steps() + 1),
                        "lower the learning rate, clip gradients, or train in bf16");
            }
            float scale = halves ? Math.max(state.scale() / FACTOR, minScale) : state.scale();
            int left = halves ? state.hysteresis() : state.hysteresis() - 1;
            return new State(scale, 0, left, state.steps() + 1, state.steps());
        }

        private State afterCleanStep(State state) {
            long stable = state.steps() - state.lastOverflow() - 1;
            boolean grows = stable > 0 && stable % window == 0;
            float scale = grows ? state.scale() * FACTOR : state.scale();
            int left = grows || consecutiveHysteresis ? hysteresis : state.hysteresis();
            return new State(scale, 0, left, state.steps() + 1, state.lastOverflow());
        }
    }

    /**
     * Apex's: halves at each overflow, doubles after {@code window} clean steps.
     *
     * @param window 2000 in Apex
     * @param maxScale 2^24 in Apex
     */
    record ApexScaler(float initialScale, int window, float maxScale) implements LossScaling {
        /** Apex's numbers. */
        public static final ApexScaler DEFAULT = new ApexScaler(0x1p16f, 2000, 0x1p24f);

        private static final float FACTOR = 2;

        @Override
        public State initial() {
            return State.at(Math.min(maxScale, initialScale), 0);
        }

        @Override
        public State next(State state, boolean overflow) {
            long steps = state.steps() + 1;
            if (overflow) {
                return new State(state.scale() / FACTOR, 0, 0, steps, state.steps());
            }
            if (state.clean() + 1 < window) {
                return new State(state.scale(), state.clean() + 1, 0, steps, state.lastOverflow());
            }
            return new State(Math.min(maxScale, state.scale() * FACTOR), 0, 0, steps, state.lastOverflow());
        }
    }
}
