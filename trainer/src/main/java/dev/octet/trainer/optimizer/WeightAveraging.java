package dev.octet.trainer.optimizer;

import dev.octet.formats.tensor.Tensor;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * An average of the weights that a run keeps besides them; maths are those of torch.optim.swa_utils. It lies in the states {@code ema:PARAMETER} or
 * {@code swa:PARAMETER} in F32, part of every checkpoint. Steps that do not count (loss or gradients not finite) do not enter it.
 *
 * @param kind how weights enter
 * @param decay EMA: the share of the average that stays; 0 for SWA
 * @param start steps that are left out at the beginning
 * @param every steps from one average to the next
 */
public record WeightAveraging(Kind kind, double decay, long start, long every) {
    /** Kinds of average. */
    public enum Kind {
        /** Exponential moving average. */
        EMA,
        /** Stochastic weight averaging (Izmailov et al., arXiv:1803.05407): the mean. */
        SWA;

        /** Its name in configurations and options. */
        public String label() {
            return name().toLowerCase(Locale.ROOT);
        }

        /** Where the average of a parameter lies among a run's states. */
        public String state(String parameter) {
            return label() + ":" + parameter;
        }

        /**
         * Parameters with their averages in place of those that were trained.
         *
         * @param parameters by name
         * @param state of the same checkpoint
         * @return those without an average, frozen ones, as they are
         */
        public Map<String, Tensor> averaged(Map<String, Tensor> parameters, Map<String, Tensor> state) {
            Map<String, Tensor> averaged = new TreeMap<>(parameters);
            for (String name : parameters.keySet()) {
                Tensor average = state.get(state(name));
                if (average != null) {
                    averaged.put(name, average.withName(name));
                }
            }
            return averaged;
        }
    }

    /** @throws IllegalArgumentException when a number is out of range */
    public WeightAveraging {
        boolean decays = kind == Kind.EMA ? decay > 0 && decay < 1 : decay == 0;
        if (!decays || start < 0 || every < 1) {
            throw new IllegalArgumentException(
                    kind + " with decay " + decay + ", from step " + start + ", every " + every + " steps");
        }
    }

    /** An exponential moving average of every step. */
    public static WeightAveraging ema(double decay) {
        return new WeightAveraging(Kind.EMA, decay, 0, 1);
    }

    /** Steps that have entered the average after {@code updates}. */
    public long averaged(long updates) {
        return Math.max(0, updates - start) / every;
    }
}
