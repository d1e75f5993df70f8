package dev.octet.trainer.activation;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Roots;
import dev.octet.trainer.program.Step;
import java.util.Arrays;
import java.util.List;

/**
 * A training program that keeps less between forward and backward, made from one that keeps everything. Whatever the program computes in, its results stay the same bit
 * for bit under every {@link Recompute}; {@link Kept} rounds what is kept.
 *
 * @param program what runs
 * @param before arena bytes of the program that keeps everything
 * @param after arena bytes of {@code program}
 * @param repeatedSteps number of steps that run twice
 */
public record ActivationPlan(Program program, long before, long after, int repeatedSteps) {
    /** The section of a configuration that says what is computed again. */
    public static final String KEY = "gradient_checkpointing";

    /**
     * Plans a program; one without backward, or with settings that ask for nothing, stays as it is.
     *
     * @throws InvalidOptionException when layers or a pattern are asked for that the program does not have, or a budget that cannot be met
     */
    public static ActivationPlan of(Program program, ActivationSettings settings) {
        MemoryPlan plain = MemoryPlan.of(program);
        boolean trains = !program.steps(Phase.BACKWARD).isEmpty();
        Program less = trains ? recomputed(program, settings.recompute()) : program;
        long after = less == program ? plain.arenaBytes() : MemoryPlan.of(less).arenaBytes();
        int repeats = (int) less.steps().stream().filter(Step::repeats).count();
        return new ActivationPlan(less, plain.arenaBytes(), after, repeats);
    }

    private static Program recomputed(Program program, Recompute recompute) {
        return switch (recompute) {
            case Recompute.None _ -> program;
            case Recompute.Layers(int count) -> {
                Layers layers = Layers.in(program);
                requireLayers(layers);
                int[] groups = layers.groups(count);
                yield new Repetition(program, Roots.of(program), groups, groups).build();
            }
            case Recompute.Matching(var pattern) -> {
                Layers layers = Layers.in(program);
                List<Step> steps = program.steps(Phase.FORWARD);
                int[] homes = layers.groups(1);
                int[] blocks = new int[homes.length];
                int run = layers.count();
                boolean runs = false;
                for (int i = 0; i < blocks.length; i++) {
                    boolean matches = pattern.matcher(steps.get(i).node()).find();
                    if (homes[i] == Layers.OUTSIDE && matches && !runs) {
                        run++;
                    }
                    runs = matches && homes[i] == Layers.OUTSIDE;
                    blocks[i] = !matches ? -1 : homes[i] == Layers.OUTSIDE ? run : homes[i];
                }
                if (Arrays.stream(blocks).allMatch(b -> b < 0)) {
                    throw new InvalidOptionException(
                            "'" + pattern + "' is in the name of none of the " + steps.size() + " steps of forward",
                            KEY + ".match",
                            "write part of a node's name, such as '"
                                    + steps.get(steps.size() / 2).node() + "'; `octet inspect --nodes` lists them");
                }
                yield new Repetition(program, Roots.of(program), blocks, homes).build();
            }
            case Recompute.Budget(long bytes) -> throw new InvalidOptionException("" + bytes, KEY, "");
        };
    }

    private static void requireLayers(Layers layers) {
        if (layers.count() == 0) {
            throw new InvalidOptionException(
                    "the names of the model's weights and nodes have no numbered layers, as in 'layers.0'",
                    KEY + ".layers",
                    "name nodes with match: PATTERN, or give a budget");
        }
    }
}
