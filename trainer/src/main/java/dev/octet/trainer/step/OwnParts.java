package dev.octet.trainer.step;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.cut.CutPlace;
import dev.octet.trainer.cut.Part;
import dev.octet.trainer.cut.TensorCut;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.op.shard.SharedTensor;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Program;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/** The part of a model that this rank has where several share its layers; all of it where they do not. */
final class OwnParts {
    private final TrainingSetup setup;
    private final SessionRanks ranks;
    private final PersistentBuffers memory;
    private @Nullable TensorCut cut;
    /** What this rank has of weights and states, by name. */
    private Map<String, Part> parts = Map.of();

    /** Parts of frozen weights that stay in their file's bytes. */
    private final Map<String, Tensor> cutConstants = new TreeMap<>();

    OwnParts(TrainingSetup setup, SessionRanks ranks, PersistentBuffers memory) {
        this.setup = setup;
        this.ranks = ranks;
        this.memory = memory;
        if (ranks.tensor().isAlone()) {
            memory.offer(setup.parameters().all());
        }
    }

    /** The part of a model that this rank has. Which part of which weight follows from the first micro-batch. */
    LossGraph of(LossGraph whole, PrecisionPolicy policy) {
        Collectives tensor = ranks.tensor();
        if (tensor.isAlone()) {
            return whole;
        }
        ProgramOptions all = ProgramOptions.training(
                        whole.loss(), setup.trained(), setup.parameters().names(), policy)
                .withOutputs(whole.parts().values())
                .withStored(setup.stored());
        TensorCut made = TensorCut.of(
                whole.model(),
                all,
                new CutPlace(tensor.rank(), tensor.size(), setup.shards().sequences()),
                cutConstants);
        TensorCut before = cut;
        if (before == null) {
            memory.offer(setup.parameters().all(), made.parts());
            cut = made.withoutModel();
            parts = made.parts();
        } else if (!before.parts().equals(made.parts())) {
            throw new InvalidOptionException(
                    "samples of different shapes have weights cut in different ways",
                    "distributed.tensor: " + tensor.size() + "; "
                            + ranks.world().name(),
                    "pad samples to one length, or leave tensor out");
        }
        return new LossGraph(made.model(), whole.loss(), whole.output(), whole.parts(), whole.counted());
    }

    /** How ranks share layers; empty where they do not, or before the first model was cut. */
    Optional<TensorCut> cut() {
        return Optional.ofNullable(cut);
    }

    /** Whether a model was cut. */
    boolean isCut() {
        return cut != null;
    }

    /** What this rank has of weights and states that are cut, by name. */
    Map<String, Part> byName() {
        return parts;
    }

    /** Weights of which this rank has parts, for what needs the whole of them. */
    Map<String, SharedTensor> shared() {
        return cut == null ? Map.of() : cut.shared(ranks.tensor());
    }

    /** The ranks that plan together what backward computes again. */
    Collectives planning() {
        return ranks.planning();
    }

    /** Shape of what this rank has of a tensor. */
    Shape shape(String name, Shape whole) {
        Part part = parts.get(name);
        return part == null ? whole : part.shape();
    }

    /** Whether this rank has a part of a weight or state, and not all of it. */
    boolean isPart(String name) {
        return parts.containsKey(name);
    }

    /** A program whose steps know the ranks that share its layers. */
    Program among(Program program) {
        TensorCut cuts = cut;
        return cuts == null ? program : cuts.among(program, ranks.tensor());
    }

    UpdateProgram among(UpdateProgram made) {
        TensorCut cuts = cut;
        if (cuts == null) {
            return made;
        }
        Map<String, Part> all = new TreeMap<>(cuts.withStates(made));
        cuts.parts().forEach((name, part) -> {
            if (!setup.states().parameter(name, part.shape()).isF32()) {
                all.put(SessionTensors.codesName(name), part);
            }
        });
        parts = all;
        return cuts.among(made, ranks.tensor());
    }

    /** What this rank has of whole tensors. */
    Map<String, Tensor> of(Map<String, Tensor> whole) {
        if (parts.isEmpty()) {
            return whole;
        }
        Map<String, Tensor> own = new TreeMap<>(whole);
        own.replaceAll((name, tensor) -> {
            Part part = parts.get(name);
            return part != null && part.whole().equals(tensor.shape()) ? part.of(tensor, Arena.ofAuto()) : tensor;
        });
        return own;
    }

    /** Shapes of whole tensors, from those that this rank has. */
    void restoreWhole(Map<String, Shape> shapes) {
        shapes.replaceAll((name, own) -> {
            Part part = parts.get(name);
            return part == null ? own : part.whole();
        });
    }

    /** Whole parameters, from this rank's parts of them; ranks that share layers call it together. */
    Map<String, Tensor> whole(Map<String, Tensor> own, Arena arena) {
        TensorCut cuts = cut;
        Map<String, Tensor> all = new TreeMap<>(own);
        all.replaceAll((name, part) -> cuts == null || !cuts.parts().containsKey(name)
                ? part
                : cuts.whole(part.spec(), ranks.tensor().gather(part.bytes().toArray(ValueLayout.JAVA_BYTE)), arena));
        return all;
    }
}
