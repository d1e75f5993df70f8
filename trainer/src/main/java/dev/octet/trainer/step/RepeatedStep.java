package dev.octet.trainer.step;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.collective.Mesh;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.shard.CallOrder;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * A step that is computed once more to find its first non-finite result; ends with the state it began with.
 *
 * @param own what this rank has of the model
 */
record RepeatedStep(
        SessionRanks ranks, PersistentBuffers memory, SessionPrograms programs, MicroBatchPasses passes, OwnParts own) {
    /** The first non-finite result of all ranks' micro-batches. */
    String search(List<MicroBatch> batches) {
        if (ranks.world().isAlone()) {
            return searchOwn(batches).where();
        }
        Found found = searchOwn(batches);
        byte[] text = found.where().getBytes(StandardCharsets.UTF_8);
        byte[] said = ByteBuffer.allocate(2 * Long.BYTES + text.length)
                .putLong(ranks.data().rank() + (long) ranks.inStep(found.batch()))
                .putLong(found.place())
                .put(text)
                .array();
        int head = 2 * Long.BYTES;
        return ranks.world().gather(said).stream()
                .filter(s -> s.length > head)
                .min(Comparator.comparingLong((byte[] s) -> ByteBuffer.wrap(s).getLong())
                        .thenComparingLong(s -> ByteBuffer.wrap(s).getLong(Long.BYTES)))
                .map(s -> new String(s, head, s.length - head, StandardCharsets.UTF_8))
                .orElse("");
    }

    /**
     * Where something was not finite.
     *
     * @param batch number of the micro-batch among this rank's
     * @param place which of the parts that compute it one after another
     * @param where empty for nowhere
     */
    private record Found(int batch, int place, String where) {}

    /** Repeats the micro-batches under observation to find the first non-finite result; restores the recipes' state afterwards. */
    private Found searchOwn(List<MicroBatch> batches) {
        try (Arena arena = Arena.ofConfined()) {
            // moments do not change: only the programs of the micro-batches run
            Set<String> touched = batches.stream()
                    .flatMap(b -> programs.of(b, true).chunks().stream())
                    .flatMap(c -> c.program().lasting().stream())
                    .map(Value::name)
                    .collect(Collectors.toSet());
            Map<String, Tensor> states = memory.copies(ValueRole.STATE, touched::contains, arena);
            Found found = new Found(-1, 0, "");
            memory.zeroGradients(); // what is added to a NaN would be found first
            for (int i = 0; i < batches.size() && (found.where().isEmpty() || othersNeedThis()); i++) {
                Found next = repeat(batches.get(i), i, found.where().isEmpty());
                found = found.where().isEmpty() ? next : found;
            }
            memory.restore(states);
            return found;
        }
    }

    /** Whether other ranks cannot compute a micro-batch without this one: they need its weights, or its part of the model. */
    private boolean othersNeedThis() {
        return ranks.cutsWeights() || ranks.isStaged() || own.isCut();
    }

    /** Computes a micro-batch once more. */
    private Found repeat(MicroBatch batch, int number, boolean searches) {
        LoadedPrograms loaded = programs.of(batch, true);
        passes.draw(number);
        Mesh mesh = ranks.mesh();
        int stage = ranks.pipeline().rank();
        int parts = mesh.pipeline() * mesh.chunks();
        Found found = new Found(number, 0, "");
        for (CallOrder.Call call : new CallOrder(mesh.pipeline(), mesh.chunks(), mesh.pipeline())
                .of(stage).stream().filter(c -> c.microBatch() == 0).toList()) {
            Chunk chunk = loaded.chunks().get(call.chunk());
            int part = call.chunk() * mesh.pipeline() + stage;
            NonFiniteSearch search = new NonFiniteSearch();
            if (!call.backward()) {
                chunk.begin(number);
                chunk.first().run(Phase.PREPARE);
            }
            Executable executable = chunk.of(number);
            executable.observe(searches && found.where().isEmpty() ? search : null);
            try {
                if (call.backward()) {
                    executable.run(Phase.BACKWARD);
                } else {
                    passes.forward(loaded, chunk, executable, batch);
                }
            } finally {
                executable.observe(null);
            }
            if (call.backward()) {
                chunk.release(number);
            }
            int place = call.backward() ? 2 * parts - 1 - part : part;
            found = found.where().isEmpty()
                    ? new Found(number, place, search.where().orElse(""))
                    : found;
        }
        return found;
    }
}
