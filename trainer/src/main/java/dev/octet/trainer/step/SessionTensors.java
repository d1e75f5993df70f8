package dev.octet.trainer.step;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.checkpoint.CodedMasters;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.shard.Sharding;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForms;
import dev.octet.trainer.state.StateTensors;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.UnaryOperator;

/** The parameters and states of a session as checkpoints have them, out of its memory and into it. */
final class SessionTensors {
    /** Before the names of parameters whose codes a checkpoint has among the state. */
    private static final String CODES = "codes:";

    private final TrainingSetup setup;
    private final SessionRanks ranks;
    private final PersistentBuffers memory;
    private final OwnParts parts;
    private final SessionPrograms programs;

    SessionTensors(
            TrainingSetup setup,
            SessionRanks ranks,
            PersistentBuffers memory,
            OwnParts parts,
            SessionPrograms programs) {
        this.setup = setup;
        this.ranks = ranks;
        this.memory = memory;
        this.parts = parts;
        this.programs = programs;
    }

    /** Copies of the master weights, in F32 whatever they are kept in. */
    Map<String, Tensor> parameters(Arena arena) {
        return decoded(memory.copies(ValueRole.PARAMETER, arena), tensor -> copy(tensor, arena));
    }

    private static Tensor copy(Tensor tensor, Arena arena) {
        Tensor copy = Tensor.allocate(arena, tensor.spec());
        copy.bytes().copyFrom(tensor.bytes());
        return copy;
    }

    /** Weights in F32: those that are kept in few bits are decoded. */
    private Map<String, Tensor> decoded(Map<String, Tensor> kept, UnaryOperator<Tensor> lasting) {
        StateForms states = setup.states();
        Map<String, Shape> shapes = codedShapes();
        if (shapes.isEmpty()) {
            return kept;
        }
        Map<String, Tensor> pieces = memory.views(ValueRole.STATE, Arena.ofAuto());
        Map<String, Tensor> all = new TreeMap<>(kept);
        shapes.forEach((name, shape) -> {
            Tensor codes = kept.get(name);
            if (codes != null) {
                StateForm form = states.parameter(name, shape);
                try (Arena one = Arena.ofConfined()) {
                    all.put(name, lasting.apply(StateTensors.decode(form, name, shape, codes, pieces, one)));
                }
            }
        });
        return all;
    }

    /** Shapes of the parameters that are kept in few bits. */
    private Map<String, Shape> codedShapes() {
        Map<String, Shape> shapes = new TreeMap<>();
        if (!setup.states().isF32()) {
            for (Parameter p : setup.parameters().all()) {
                Shape shape = parts.shape(p.name(), p.tensor().shape());
                if (!setup.states().parameter(p.name(), shape).isF32()) {
                    shapes.put(p.name(), shape);
                }
            }
        }
        return shapes;
    }

    /** Views of the F32 master weights for writing a checkpoint, valid until the next step; weights kept in few bits are decoded. */
    Map<String, Tensor> parameterViews(Arena arena) {
        return decoded(memory.views(ValueRole.PARAMETER, arena), tensor -> copy(tensor, arena));
    }

    /** Views of the master weights that are kept in F32, valid until the next step. */
    Map<String, Tensor> plainParameterViews(Arena arena) {
        Map<String, Tensor> views = new TreeMap<>(memory.views(ValueRole.PARAMETER, arena));
        views.keySet().removeAll(codedShapes().keySet());
        return views;
    }

    /**
     * The other master weights, decoded as they are written; valid until the next step.
     *
     * @param without names that are left out
     */
    CodedMasters codedMasters(Arena arena, Set<String> without) {
        Map<String, Tensor> kept = memory.views(ValueRole.PARAMETER, arena);
        Map<String, Shape> shapes = codedShapes();
        shapes.keySet().retainAll(kept.keySet());
        shapes.keySet().removeAll(without);
        Sharding shares = programs.sharding().orElse(null);
        shapes.keySet()
                .removeIf(name -> !writes(
                        name, shares == null ? 0 : shares.weightOwner(name).orElse(0)));
        if (shapes.isEmpty()) {
            return CodedMasters.NONE;
        }
        Map<String, Tensor> pieces = memory.views(ValueRole.STATE, arena);
        return new CodedMasters() {
            @Override
            public List<TensorSpec> specs() {
                return shapes.entrySet().stream()
                        .map(e -> new TensorSpec(e.getKey(), DType.F32, e.getValue()))
                        .toList();
            }

            @Override
            public void write(String name, ByteSink sink) throws IOException {
                Shape shape = shapes.get(name);
                Tensor codes = kept.get(name);
                if (shape == null || codes == null) {
                    throw new IllegalArgumentException("'" + name + "' is not kept in few bits");
                }
                StateTensors.decode(setup.states().parameter(name, shape), name, shape, codes, pieces, sink);
            }
        };
    }

    /** Views of moments, scales, histories and other state, codes of weights kept in few bits among them; valid until the next step. */
    Map<String, Tensor> stateViews(Arena arena) {
        return withCodes(memory.views(ValueRole.STATE, arena), memory.views(ValueRole.PARAMETER, arena));
    }

    /**
     * Those of {@link #stateViews} that this rank writes into a checkpoint: the states it owns, on the first rank also what all ranks have. All of them where nothing is
     * shared out.
     */
    Map<String, Tensor> ownStateViews(Arena arena) {
        Map<String, Tensor> all = new TreeMap<>(stateViews(arena));
        Sharding shares = programs.sharding().orElse(null);
        Map<String, Integer> owners =
                shares == null ? Map.of() : shares.partition().owners();
        all.keySet().removeIf(name -> {
            OptionalInt owner = shares == null ? OptionalInt.empty() : shares.owner(name);
            return !writes(name, name.startsWith(CODES) ? owners.getOrDefault(parameterOf(name), 0) : owner.orElse(0));
        });
        return all;
    }

    /** Names of parameters and states that this rank has and a stage before it writes into a checkpoint; none where the model is not dealt out. All ranks call it together. */
    Set<String> writtenElsewhere() {
        Set<String> elsewhere = new TreeSet<>();
        if (!ranks.isStaged()) {
            return elsewhere;
        }
        Set<String> names = new TreeSet<>(memory.shapes(ValueRole.PARAMETER).keySet());
        try (Arena arena = Arena.ofConfined()) {
            names.addAll(stateViews(arena).keySet());
        }
        byte[] own = String.join("\n", names).getBytes(StandardCharsets.UTF_8);
        ranks.pipeline().gather(own).stream()
                .limit(ranks.pipeline().rank())
                .flatMap(said -> new String(said, StandardCharsets.UTF_8).lines())
                .filter(names::contains)
                .forEach(elsewhere::add);
        return elsewhere;
    }

    /**
     * Those of {@link #plainParameterViews} that this rank writes into a checkpoint.
     *
     * @param elsewhere those that stages before this one write
     */
    Map<String, Tensor> ownParameterViews(Arena arena, Set<String> elsewhere) {
        Map<String, Tensor> all = new TreeMap<>(plainParameterViews(arena));
        all.keySet().removeAll(elsewhere);
        Sharding shares = programs.sharding().orElse(null);
        all.keySet()
                .removeIf(name -> !writes(
                        name, shares == null ? 0 : shares.weightOwner(name).orElse(0)));
        return all;
    }

    /** Whether this rank writes what a data-parallel rank has to write: its own part of it, or what all parts have on the first of them. */
    private boolean writes(String name, int owner) {
        return owner == ranks.data().rank() && (ranks.tensor().isFirst() || parts.isPart(name));
    }

    /** Copies of moments, scales, histories and other state, codes of weights kept in few bits among them. */
    Map<String, Tensor> state(Arena arena) {
        return withCodes(memory.copies(ValueRole.STATE, arena), memory.views(ValueRole.PARAMETER, arena));
    }

    private Map<String, Tensor> withCodes(Map<String, Tensor> state, Map<String, Tensor> parameters) {
        Map<String, Tensor> all = new TreeMap<>(state);
        codedShapes().keySet().forEach(name -> {
            Tensor codes = parameters.get(name);
            if (codes != null) {
                String saved = codesName(name);
                TensorSpec spec = new TensorSpec(saved, codes.dtype(), codes.shape());
                all.put(saved, new Tensor(spec, codes.bytes()));
            }
        });
        return all;
    }

    /** See {@link TrainingSession#codesName}. */
    static String codesName(String parameter) {
        return CODES + parameter;
    }

    /** Shapes of the weights that the programs built so far use. */
    Map<String, Shape> parameterShapes() {
        Map<String, Shape> shapes = new TreeMap<>(memory.shapes(ValueRole.PARAMETER));
        Sharding shares = programs.sharding().orElse(null);
        if (shares != null) {
            shapes.putAll(shares.weights()); // those of other ranks, too
        }
        programs.stages().ifPresent(dealt -> shapes.putAll(dealt.weights()));
        parts.restoreWhole(shapes);
        return shapes;
    }

    /**
     * Resumes from a checkpoint. Where ranks share states out, or parts of the model, after {@link TrainingSession#prepare}: only then it is known which are this rank's.
     *
     * @throws InvalidDataException when a tensor has the wrong type or shape
     */
    void restore(Map<String, Tensor> parameters, Map<String, Tensor> state) {
        Map<String, Tensor> weights = new TreeMap<>(parameters);
        Map<String, Tensor> own = new TreeMap<>(state);
        codedShapes().forEach((name, shape) -> {
            Tensor master = weights.remove(name);
            // the codes say more than the numbers they were decoded to: a scale that has room
            Tensor codes = own.remove(codesName(name));
            if (codes != null) {
                weights.put(name, codes);
            } else if (master != null) {
                weights.putAll(StateTensors.encode(setup.states().parameter(name, shape), master));
            }
        });
        memory.restore(ownParameters(weights));
        // without the states of other ranks; of weights in few bits all have all parts
        memory.restore(ownStates(own));
    }

    /** What this rank has of the parameters of a whole model. */
    Map<String, Tensor> ownParameters(Map<String, Tensor> whole) {
        Map<String, Tensor> own = new TreeMap<>(whole);
        programs.sharding()
                .ifPresent(shares -> own.keySet().removeIf(name -> isOthers(shares.weightOwner(name), name)));
        return parts.of(ofStage(own));
    }

    /** What this rank has of the states of a whole model, codes of weights among them. */
    Map<String, Tensor> ownStates(Map<String, Tensor> whole) {
        Map<String, Tensor> own = new TreeMap<>(whole);
        programs.sharding()
                .ifPresent(shares -> own.keySet().removeIf(name -> {
                    String parameter = parameterOf(name);
                    return isOthers(parameter.isEmpty() ? shares.owner(name) : shares.weightOwner(parameter), name);
                }));
        return parts.of(ofStage(own));
    }

    /** The parameter whose codes go by a name; empty for another name. */
    private static String parameterOf(String codes) {
        return codes.startsWith(CODES) ? codes.substring(CODES.length()) : "";
    }

    private boolean has(String name) {
        String parameter = parameterOf(name);
        return memory.has(parameter.isEmpty() ? name : parameter);
    }

    /** Those of tensors that this rank's stage of the model uses. */
    private Map<String, Tensor> ofStage(Map<String, Tensor> all) {
        if (ranks.isStaged()) {
            all.keySet().removeIf(name -> !has(name));
        }
        return all;
    }

    private boolean isOthers(OptionalInt owner, String name) {
        return owner.orElse(ranks.data().rank()) != ranks.data().rank() && !has(name);
    }

    /**
     * Sets parameters that are kept in F32.
     *
     * @throws InvalidDataException when a tensor has the wrong type or shape
     */
    void put(Map<String, Tensor> parameters) {
        memory.restore(ofStage(new TreeMap<>(parameters)));
    }
}
