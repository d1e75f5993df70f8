package dev.octet.cli;

import dev.octet.converter.lower.OnnxTarget;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/** Who reads what a run is exported to. */
public sealed interface ExportTarget {
    /** All of them. */
    List<ExportTarget> ALL = all();

    /** What users type. */
    String label();

    /** How the name of the one file ends that is written; empty for a folder. */
    String extension();

    /** How weights can be quantised for it; empty where they are not. */
    List<Recipe> recipes();

    /** A runtime of quantised graphs. */
    record Onnx(OnnxTarget runtime) implements ExportTarget {
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
    record Checkpoint(Layout layout) implements ExportTarget {
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
    enum Floats implements ExportTarget {
        /** With the state of delayed scaling, for Transformer Engine. */
        TRANSFORMER_ENGINE(".safetensors"),
        /** A standard graph. */
        ONNX(".onnx"),
        /** Tensors alone. */
        SAFETENSORS(".safetensors"),
        /** The Hugging Face folder that the run was started with, with other weights. */
        HUGGINGFACE("");

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

    private static List<ExportTarget> all() {
        List<ExportTarget> all = new ArrayList<>();
        Arrays.stream(OnnxTarget.values()).map(Onnx::new).forEach(all::add);
        Layouts.ALL.stream().map(Checkpoint::new).forEach(all::add);
        all.addAll(List.of(Floats.values()));
        return List.copyOf(all);
    }
}
