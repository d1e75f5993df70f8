package dev.octet.trainer.step;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Fetched;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossValue;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.shard.CallOrder;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/** Micro-batches that go forward and backward on this rank. */
final class MicroBatchPasses {
    private final TrainingSetup setup;
    private final SessionRanks ranks;
    private final PersistentBuffers memory;
    private final SessionPrograms programs;
    private long step = 1;

    MicroBatchPasses(TrainingSetup setup, SessionRanks ranks, PersistentBuffers memory, SessionPrograms programs) {
        this.setup = setup;
        this.ranks = ranks;
        this.memory = memory;
        this.programs = programs;
    }

    /** The number of the next step, from 1; what dropout keeps follows from it. */
    void at(long next) {
        step = next;
    }

    /** The next step is due. */
    void advance() {
        step++;
    }

    /** Names of the gradients that the first of these micro-batches overwrites; none where stages compute it. */
    Set<String> overwritten(List<MicroBatch> batches) {
        if (ranks.isStaged() || batches.isEmpty()) {
            return Set.of();
        }
        Executable first =
                programs.of(batches.getFirst(), true).chunks().getFirst().first();
        return first.overwritten().stream().map(Value::name).collect(Collectors.toSet());
    }

    /**
     * Accumulates gradients over the micro-batches, to what is there but for those of {@link #overwritten}.
     *
     * @param lossScale what gradients are multiplied by
     * @return suppliers of their losses, which wait for the device; none on a stage that has no loss
     */
    List<Supplier<LossValue>> forwardAndBackward(List<MicroBatch> batches, StepWatches watches, float lossScale) {
        RankGradients exchange = programs.gradients();
        Set<Chunk> prepared = new HashSet<>();
        List<Supplier<LossValue>> losses = new ArrayList<>();
        int calls = 0;
        StepObserver watching = null;
        for (CallOrder.Call call :
                ranks.order(batches.size()).of(ranks.pipeline().rank())) {
            MicroBatch batch = batches.get(call.microBatch());
            LoadedPrograms loaded = programs.of(batch, true);
            Chunk chunk = loaded.chunks().get(call.chunk());
            boolean isLast = call.microBatch() == batches.size() - 1;
            if (!call.backward()) {
                Executable executable = chunk.begin(call.microBatch());
                watching = watches.of(loaded, pass(call));
                executable.observe(watching);
                if (prepared.add(chunk)) {
                    prepare(chunk, lossScale, ranks.inStep(batches.size()));
                }
                draw(call.microBatch());
                forward(loaded, chunk, executable, batch).ifPresent(losses::add);
            } else {
                Executable executable = chunk.of(call.microBatch());
                if (ranks.isStaged()) {
                    draw(call.microBatch()); // others may have gone forward meanwhile
                }
                if (exchange != null && batches.size() * ranks.mesh().chunks() == 1) {
                    executable.observe(StepWatches.both(watching, exchange.during(executable.program())));
                }
                if (call.microBatch() == 0 && !ranks.isStaged()) {
                    executable.runFirstBackward();
                } else {
                    executable.run(Phase.BACKWARD);
                }
                executable.observe(null);
                if (exchange != null) {
                    exchange.await();
                }
                chunk.release(call.microBatch());
            }
            SharedScales scales = chunk.scales(call.backward());
            if (scales != null) {
                scales.take(call.microBatch(), isLast);
            }
            if (call.backward() && exchange != null) {
                calls++;
                exchange.take(calls - 1, calls == batches.size() * ranks.mesh().chunks());
            }
        }
        if (!ranks.world().isAlone()) {
            memory.writeDraw(step, ranks.inStep(batches.size()) - 1L); // a checkpoint has the step's last one
        }
        return losses;
    }

    /**
     * Has a device copy batches that come next while it computes others, those that are like the ones it computes.
     */
    void stage(List<MicroBatch> next, List<MicroBatch> current) {
        if (ranks.isStaged()) {
            return;
        }
        for (int i = 0; i < Math.min(next.size(), current.size()); i++) {
            Map<String, Tensor> tensors = next.get(i).tensors();
            if (types(tensors).equals(types(current.get(i).tensors()))) {
                Executable executable =
                        programs.of(current.get(i), true).chunks().getFirst().first();
                executable.program().inputs().forEach((name, value) -> {
                    Tensor tensor = tensors.get(name);
                    if (tensor != null) {
                        executable.stage(value, tensor.bytes());
                    }
                });
            }
        }
    }

    private static Map<String, OperandType> types(Map<String, Tensor> tensors) {
        Map<String, OperandType> types = new TreeMap<>();
        tensors.forEach((name, t) -> types.put(name, new OperandType(t.dtype(), t.shape())));
        return types;
    }

    private ObservedPass pass(CallOrder.Call call) {
        return new ObservedPass(
                ranks.data().rank() + ranks.inStep(call.microBatch()),
                call.chunk() * ranks.mesh().pipeline() + ranks.pipeline().rank(),
                call.microBatch() == 0);
    }

    /** Before a chunk's first micro-batch of a step. */
    private void prepare(Chunk chunk, float lossScale, int microBatches) {
        if (chunk.program().lasting().stream().anyMatch(v -> v.name().equals(Program.LOSS_GRADIENT))) {
            memory.writeLossGradient(chunk.program(), lossScale * setup.ranks().ranks() / microBatches);
        }
        chunk.first().run(Phase.PREPARE);
    }

    /**
     * Says which masks of dropout are due.
     *
     * @param microBatch its number among those of this process in the step
     */
    void draw(int microBatch) {
        memory.writeDraw(step, ranks.data().rank() + ranks.inStep(microBatch));
    }

    /** Its loss, where this rank computes it. */
    Optional<Supplier<LossValue>> forward(LoadedPrograms loaded, Chunk chunk, Executable executable, MicroBatch batch) {
        executable.program().inputs().forEach((name, value) -> {
            Tensor tensor = batch.tensors().get(name);
            if (tensor != null) {
                executable.feed(value, tensor.bytes());
            }
        });
        executable.run(Phase.FORWARD);
        Value loss = chunk.result(loaded.loss());
        if (loss == null) {
            return Optional.empty();
        }
        Map<String, Fetched> parts = new TreeMap<>();
        loaded.lossParts()
                .forEach((part, name) ->
                        parts.put(part, executable.fetch(Objects.requireNonNull(chunk.result(name), name))));
        Fetched total = executable.fetch(loss);
        return Optional.of(() -> {
            Map<String, Double> numbers = new TreeMap<>();
            parts.forEach((part, fetched) -> numbers.put(part, (double) Scalars.of(fetched)));
            return new LossValue(Scalars.of(total), numbers, loaded.counted().in(batch.tensors()));
        });
    }

    /**
     * Mean loss of a micro-batch with the current weights, see {@link TrainingSession#ofAllRanks}; changes no state.
     *
     * @return empty on a rank whose part of the model has no loss
     */
    Optional<LossValue> evaluate(MicroBatch batch) {
        LoadedPrograms loaded = programs.of(batch, false);
        Optional<LossValue> loss = Optional.empty();
        for (Chunk chunk : loaded.chunks()) {
            chunk.first().run(Phase.PREPARE);
            Executable executable = chunk.begin(0);
            loss = forward(loaded, chunk, executable, batch).map(Supplier::get);
            chunk.release(0);
        }
        // also where no loss is read: the next batch takes the same places on its way to the device
        memory.memory().start();
        return loss;
    }
}
