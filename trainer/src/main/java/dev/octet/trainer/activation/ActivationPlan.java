package dev.octet.trainer.activation;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.ValueRole;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A training program that keeps less between forward and backward, made from one that keeps everything. Whatever the program computes in, its results stay the same bit
 * for bit under every {@link Recompute}; {@link Kept} rounds what is kept.
 *
 * @param program what runs
 * @param before arena bytes of the program that keeps everything; 0 when nothing else was asked for
 * @param after arena bytes of {@code program}; 0 when nothing was asked for
 * @param hosted bytes of values in memory of the host between forward and backward
 * @param again part of the operations of the step that are done for the second time, from 0 to below 1
 */
@SuppressWarnings("ReferenceEquality") // whether a pass has made another program
public record ActivationPlan(Program program, long before, long after, long hosted, double again) {
    /** The section of a configuration that says what is computed again. */
    public static final String KEY = "gradient_checkpointing";

    /** The plan of a program that this rank computes alone. */
    public static ActivationPlan of(Program program, ActivationSettings settings, WeightCasts casts) {
        return of(program, settings, casts, Collectives.alone());
    }

    /**
     * Plans a program; one with settings that ask for nothing stays as it is. A program without backward keeps nothing; of it the casts of weights alone are planned.
     *
     * @param casts of the weights of layers that are computed again
     * @param ranks that share the layers, and compute the same ones again; all of them plan together
     * @throws InvalidOptionException when layers or a pattern are asked for that the program does not have, or a budget that cannot be met
     */
    public static ActivationPlan of(
            Program program, ActivationSettings settings, WeightCasts casts, Collectives ranks) {
        require(program, settings);
        return ofPart(program, settings, casts, ranks);
    }

    /**
     * Refuses settings that ask for layers or a pattern that a program does not have.
     *
     * @throws InvalidOptionException in that case
     */
    public static void require(Program program, ActivationSettings settings) {
        if (program.steps(Phase.BACKWARD).isEmpty()) {
            return;
        }
        switch (settings.recompute()) {
            case Recompute.Layers _ -> requireLayers(Layers.in(program));
            case Recompute.Matching(var pattern) -> {
                List<Step> steps = program.steps(Phase.FORWARD);
                if (steps.stream().noneMatch(s -> pattern.matcher(s.node()).find())) {
                    throw new InvalidOptionException(
                            "'" + pattern + "' is in the name of none of the " + steps.size() + " steps of forward",
                            KEY + ".match",
                            "write part of a node's name, such as '"
                                    + steps.get(steps.size() / 2).node() + "'");
                }
            }
            case Recompute.None _, Recompute.Budget _ -> {}
        }
    }

    /**
     * Plans a part of a program, which need not have what is asked for: other parts may.
     *
     * @param ranks as there
     * @throws InvalidOptionException when a budget cannot be met
     */
    public static ActivationPlan ofPart(
            Program program, ActivationSettings settings, WeightCasts casts, Collectives ranks) {
        if (settings.equals(ActivationSettings.NONE)) {
            return new ActivationPlan(program, 0, 0, 0, 0);
        }
        if (program.steps(Phase.BACKWARD).isEmpty()) {
            return new ActivationPlan(forward(program, settings.recompute(), casts), 0, 0, 0, 0);
        }
        MemoryPlan plain = MemoryPlan.of(program);
        Program less = recomputed(program, settings.recompute(), casts, ranks);
        Program narrow =
                settings.kept() != Kept.AS_THEY_ARE ? new NarrowKeeping(new Tape(less), settings.kept()).build() : less;
        Program away = settings.home() == Home.HOST ? new HostKeeping(new Tape(narrow)).build() : narrow;
        long after = away == program ? plain.arenaBytes() : MemoryPlan.of(away).arenaBytes();
        return new ActivationPlan(
                away, plain.arenaBytes(), after, MemoryPlan.bytes(away, ValueRole.HOSTED), share(narrow));
    }

    /** Part of a step's products that is computed for the second time. */
    private static double share(Program program) {
        long all = 0;
        long again = 0;
        for (Step s : program.steps()) {
            long flops = StepCost.of(s).flops();
            all += flops;
            again += s.repeats() ? flops : 0;
        }
        return all == 0 ? 0 : (double) again / all;
    }

    /** Evaluation: the casts that training makes for a layer at a time are made so here; a budget is one of training. */
    private static Program forward(Program program, Recompute recompute, WeightCasts casts) {
        Tape tape = new Tape(program);
        return switch (recompute) {
            case Recompute.None _ -> program;
            case Recompute.Layers(int count)
            when casts == WeightCasts.OF_A_LAYER -> {
                int[] groups = Layers.in(program).groups(count);
                yield TransientCasts.all(tape, groups, groups).moved().program();
            }
            case Recompute.Layers _, Recompute.Matching _, Recompute.Budget _ -> program;
        };
    }

    private static Program repeating(Program program, int[] blocks, int[] homes, WeightCasts casts) {
        Tape tape = new Tape(program);
        return switch (casts) {
            case OF_A_STEP -> new Repetition(tape, blocks, homes).build();
            case OF_A_LAYER -> TransientCasts.all(tape, blocks, homes).moved().repeated();
        };
    }

    private static Program recomputed(Program program, Recompute recompute, WeightCasts casts, Collectives ranks) {
        return switch (recompute) {
            case Recompute.None _ -> program;
            case Recompute.Layers(int count) -> {
                int[] groups = Layers.in(program).groups(count);
                yield repeating(program, groups, groups, casts);
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
                yield repeating(program, blocks, homes, casts);
            }
            case Recompute.Budget(long bytes) -> within(program, bytes, casts, ranks);
        };
    }

    private static Program within(Program program, long budget, WeightCasts casts, Collectives ranks) {
        long plain = MemoryPlan.of(program).arenaBytes();
        if (plain <= budget && ranks.isAlone()) {
            return program;
        }
        Tape tape = new Tape(program);
        BudgetPlanner planner = new BudgetPlanner(tape, BudgetPlanner.units(tape, Layers.in(program)), casts);
        Optional<BudgetPlanner.Choice> own =
                plain <= budget ? Optional.empty() : Optional.of(choice(planner, budget, plain));
        return agreed(own, plain, ranks).map(planner::repeating).orElse(program);
    }

    private static BudgetPlanner.Choice choice(BudgetPlanner planner, long budget, long plain) {
        Optional<BudgetPlanner.Choice> found = planner.within(budget);
        if (found.isPresent()) {
            return found.get();
        }
        BudgetPlanner.Choice least = planner.least();
        long bytes = Math.min(plain, MemoryPlan.of(planner.repeating(least)).arenaBytes());
        if (bytes <= budget) {
            return least;
        }
        throw new InvalidOptionException(
                "a micro-batch needs " + plain + " bytes, and " + bytes
                        + " bytes when as much as possible is computed again; the budget is " + budget,
                KEY + ".budget",
                "set budget: " + bytes
                        + " or more, or make the micro-batch smaller: batch_size with gradient_accumulation, shorter"
                        + " samples");
    }

    /** The choice of the rank that needs most, which those that share its layers follow: together they compute a layer again. */
    private static Optional<BudgetPlanner.Choice> agreed(
            Optional<BudgetPlanner.Choice> own, long plain, Collectives ranks) {
        if (ranks.isAlone()) {
            return own;
        }
        List<Integer> blocks = own.map(BudgetPlanner.Choice::blocks).orElse(List.of());
        ByteBuffer said = ByteBuffer.allocate(Long.BYTES + 1 + Integer.BYTES * blocks.size())
                .putLong(plain)
                .put((byte) (own.isPresent() && own.get().casts() ? 1 : 0));
        blocks.forEach(said::putInt);
        ByteBuffer chosen = ByteBuffer.allocate(0);
        long most = -1;
        for (byte[] each : ranks.gather(said.array())) {
            ByteBuffer read = ByteBuffer.wrap(each);
            long bytes = read.getLong();
            chosen = bytes > most ? read : chosen; // of equals that of the first
            most = Math.max(most, bytes);
        }
        boolean casts = chosen.get() != 0;
        List<Integer> all = new ArrayList<>();
        while (chosen.hasRemaining()) {
            all.add(chosen.getInt());
        }
        return all.isEmpty() ? Optional.empty() : Optional.of(new BudgetPlanner.Choice(all, casts));
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
