package dev.octet.trainer.dialect;

import java.util.List;

/** Processes that have parts of the model in a JSON of DeepSpeed (deepspeed/runtime/tensor_parallel/config.py, runtime/config.py). */
final class DeepSpeedMesh {
    /** Spellings of how many share each layer. */
    private static final List<String> TENSOR = List.of(
            "tensor_parallel.autotp_size", "tensor_parallel.tensor_parallel.tp_size", "tensor_parallel.tp.tp_size");

    private static final String STAGES = "pipeline.stages";

    private DeepSpeedMesh() {}

    static void read(Draft draft) {
        for (String key : TENSOR) {
            draft.ranks(key, "distributed.tensor", "Layers are found in the graph, whatever the policy.");
        }
        if (draft.isAuto(STAGES)) {
            draft.fill(STAGES, "1", "the model's code");
        }
        if (draft.has(STAGES) && !draft.text(STAGES).matches("[0-9]{1,9}")) {
            draft.problem(STAGES, "pipeline.stages is " + draft.text(STAGES), "give the number of stages");
        }
        draft.ranks(STAGES, "distributed.pipeline", "In DeepSpeed the model's code makes stages; here the key does.");
    }
}
