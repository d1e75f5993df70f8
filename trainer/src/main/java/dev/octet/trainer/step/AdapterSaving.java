package dev.octet.trainer.step;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.adapter.AdaptedGraph;
import dev.octet.trainer.adapter.SavedAdapter;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.precision.PrecisionPolicy;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/** From the parameters of an adapter to what its PEFT folder holds. */
public final class AdapterSaving {
    private AdapterSaving() {}

    /**
     * The adapter with these parameters. What the file has in place of an encoder's weights is computed from them, in F32.
     *
     * @param parameters the trained ones, by name
     * @param baseModel path or name of the base
     * @param task PEFT's type of the task, unless the configuration names one
     * @param device computes
     * @param arena owns what is computed
     */
    public static SavedAdapter of(
            AdaptedGraph adapted,
            Map<String, Tensor> parameters,
            String baseModel,
            String task,
            Device device,
            Arena arena) {
        AdaptedGraph.Files files = adapted.files(parameters, arena);
        Map<String, Tensor> computed = new TreeMap<>();
        Map<String, String> keys = new LinkedHashMap<>(adapted.keys());
        keys.entrySet().removeIf(e -> isMade(files.tensors().get(e.getValue()), parameters.get(e.getKey())));
        files.tensors().forEach((key, tensor) -> {
            if (!keys.containsValue(key)) {
                computed.put(key, tensor);
            }
        });
        adapted.computed().forEach((key, graph) -> {
            String output = graph.graph().outputs().getFirst().name();
            try (ForwardSession session = new ForwardSession(
                    GraphSource.fixed(graph), List.of(output), PrecisionPolicy.FP32, parameters, Map.of(), device)) {
                computed.put(
                        key,
                        requireNonNull(session.outputs(Map.of(), arena).get(output))
                                .withName(key));
            }
        });
        return new SavedAdapter(adapted.savedConfig(files.config(), baseModel, task), keys, computed);
    }

    /** Whether what the file has under a parameter's key is made from it: with what its module's weight gave up. */
    private static boolean isMade(@Nullable Tensor inFile, @Nullable Tensor parameter) {
        return inFile != null && parameter != null && !inFile.shape().equals(parameter.shape());
    }
}
