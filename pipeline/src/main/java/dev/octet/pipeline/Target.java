package dev.octet.pipeline;

import dev.octet.converter.checkpoint.TrainingFolder;
import dev.octet.converter.lower.OnnxTarget;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Who reads what is written: every name that {@code --target} takes for any verb. A runtime of graphs, a layout of checkpoints, or weights as
 * floats.
 */
public sealed interface Target {
    /** Runtimes of quantised graphs: what a model with a graph is quantised for. */
    List<Graph> GRAPHS = Arrays.stream(OnnxTarget.values()).map(Graph::new).toList();

    /** Layouts of quantised checkpoints: what a checkpoint is quantised for, or converted to. */
    List<Checkpoint> CHECKPOINTS = Layouts.ALL.stream().map(Checkpoint::new).toList();

    /** What a model can be converted to. */
    List<Target> CONVERTED = concat(
            concat(List.of(Floats.ONNX, Floats.HUGGINGFACE, new Gguf()), List.of(Training.values())), CHECKPOINTS);

    /** What a run can be exported to: all but what is converted from an exported folder. */
    List<Target> EXPORTED = concat(concat(GRAPHS, CHECKPOINTS), List.of(Floats.values()));

    /** Every target of any verb. */
    List<Target> ALL = concat(concat(EXPORTED, List.of(new Gguf())), List.of(Training.values()));

    /** What users type. */
    String label();

    /** How the name of the one file ends that is written; empty for a folder. */
    String extension();

    /** How weights can be quantised for it; empty where they are not. */
    List<Recipe> recipes();

    /** A runtime of quantised graphs. */
    record Graph(OnnxTarget runtime) implements Target {
        @Override
        public String label() {
            return runtime.label();
        }

        @Override
        public String extension() {
            return ".onnx";
        }

        @Override
        public List<Recipe> recipes() {
            return Recipes.GRAPH;
        }
    }

    /** A server of quantised checkpoints. */
    record Checkpoint(Layout layout) implements Target {
        @Override
        public String label() {
            return layout.name();
        }

        @Override
        public String extension() {
            return "";
        }

        @Override
        public List<Recipe> recipes() {
            return Recipes.CHECKPOINT;
        }
    }

    /** Weights as floats. */
    enum Floats implements Target {
        /** With the state of delayed scaling, for Transformer Engine. */
        TRANSFORMER_ENGINE(".safetensors"),
        /** A standard graph. */
        ONNX(".onnx"),
        /** Tensors alone. */
        SAFETENSORS(".safetensors"),
        /** The Hugging Face folder that the run was started with, with other weights. */
        HUGGINGFACE(""),
        /** The adapter that was trained, in a PEFT folder. */
        PEFT("");

        private final String extension;

        Floats(String extension) {
            this.extension = extension;
        }

        @Override
        public String label() {
            return name().toLowerCase(Locale.ROOT).replace('_', '-');
        }

        @Override
        public String extension() {
            return extension;
        }

        @Override
        public List<Recipe> recipes() {
            return List.of();
        }
    }

    /** llama.cpp and what reads its files. */
    record Gguf() implements Target {
        @Override
        public String label() {
            return "gguf";
        }

        @Override
        public String extension() {
            return ".gguf";
        }

        @Override
        public List<Recipe> recipes() {
            return List.of();
        }
    }

    /** Programs that train, and start from these weights. */
    enum Training implements Target {
        /** torch's distributed checkpoint. */
        DCP(TrainingFolder.Form.DCP),
        /** A checkpoint of DeepSpeed for any stage of ZeRO and any number of ranks. */
        DEEPSPEED_UNIVERSAL(TrainingFolder.Form.DEEPSPEED_UNIVERSAL);

        private final TrainingFolder.Form form;

        Training(TrainingFolder.Form form) {
            this.form = form;
        }

        /** How its folder is laid out. */
        TrainingFolder.Form form() {
            return form;
        }

        @Override
        public String label() {
            return name().toLowerCase(Locale.ROOT).replace('_', '-');
        }

        @Override
        public String extension() {
            return "";
        }

        @Override
        public List<Recipe> recipes() {
            return List.of();
        }
    }

    /** The target with this name; empty when there is none. */
    static Optional<Target> named(String label) {
        return ALL.stream().filter(t -> t.label().equals(label)).findFirst();
    }

    /** The layout that most consumers of a recipe read. */
    static Checkpoint usual(Recipe recipe) {
        String label = recipe.equals(Recipes.FP8_BLOCK) ? "fp8" : "compressed-tensors";
        return new Checkpoint(Layouts.named(label).orElseThrow());
    }

    private static List<Target> concat(List<? extends Target> first, List<? extends Target> second) {
        return Stream.<Target>concat(first.stream(), second.stream()).toList();
    }
}
