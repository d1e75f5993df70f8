package dev.octet.pipeline.run;

import dev.octet.converter.Converter;
import dev.octet.converter.DocumentGraph;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.model.Shard;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A model file with its graph, canonical and at any sizes: what the converter makes of it, for the trainer. */
public record OpenedModel(ModelSource file, Converter converter, GraphModel canonical) implements AutoCloseable {
    /**
     * Opens a model.
     *
     * @throws dev.octet.formats.error.OctetException when it has no graph, or one that is not known
     */
    public static OpenedModel of(Path path) throws IOException {
        return of(ModelSource.open(path));
    }

    /**
     * Opens a model whose frozen weights stay in the bytes they are stored in; only the trainer can use its graph.
     *
     * @throws dev.octet.formats.error.OctetException as {@link #of}, and when scales of quantised weights are missing or cannot be used
     */
    public static OpenedModel asStored(Path path) throws IOException {
        return of(ModelSource.openAsStored(path));
    }

    private static OpenedModel of(ModelSource file) throws IOException {
        boolean opened = false;
        try {
            Converter converter = file.converter();
            opened = true;
            return new OpenedModel(file, converter, converter.canonical());
        } finally {
            if (!opened) {
                file.close();
            }
        }
    }

    /**
     * The same for several texts in a row that do not see each other.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when the graph cannot keep them apart
     */
    public OpenedModel forDocuments() {
        return new OpenedModel(file, converter, DocumentGraph.of(canonical));
    }

    /** SHA-256 of a model, by which a run knows it: of a file, or of all that a checkpoint's graph is made of. */
    public static String digest(Path model) throws IOException {
        if (!Checkpoint.isCheckpoint(model)) {
            return Sha256.of(model);
        }
        try (Checkpoint checkpoint = Checkpoint.open(model)) {
            List<String> parts = new ArrayList<>(List.of("checkpoint"));
            parts.add(String.valueOf(checkpoint.config().orElse(null)));
            for (Shard shard : checkpoint.shards()) {
                parts.add(shard.name());
                for (Path file : shard.files()) {
                    parts.add(Sha256.of(file));
                }
            }
            return Sha256.of(parts.toArray(String[]::new));
        }
    }

    /** The graph at any sizes, as the trainer asks for it. */
    public GraphSource source() {
        return new GraphSource(canonical, (graph, sizes) -> TrainingGraph.of(graph, sizes, new PassLog()));
    }

    /** Closes the file; what the converter made goes with it. */
    @Override
    public void close() {
        converter.close();
        file.close();
    }
}
