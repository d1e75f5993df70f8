package dev.octet.converter.trained;

import dev.octet.formats.checkpoint.ModelConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * A checkpoint's folder that appears whole. It is made beside its place under another name (see {@link MastersFolder}) and takes its own
 * when it is complete; whatever fails before that leaves what was there.
 */
public final class WholeFolder {
    private WholeFolder() {}

    /** Fills a folder. */
    @FunctionalInterface
    public interface Content {
        /** Writes all files into an empty folder. */
        void writeTo(Path folder) throws IOException;
    }

    /**
     * Makes a folder. In one that is there, the files of its model (tensors, index, configuration) give way, all else stays unless the new
     * folder has a file of that name.
     *
     * @param output its parent must be there
     * @throws java.nio.file.FileSystemException when another process writes to the same output
     * @throws IOException when writing fails; then nothing is left of what was written
     */
    public static void write(Path output, Content content) throws IOException {
        try (MastersFolder folder = MastersFolder.beside(output)) {
            content.writeTo(folder.path());
            place(folder.path(), output);
        }
    }

    /** Gives the finished folder its name; into a folder that is there its files go one by one, the configuration last. */
    private static void place(Path made, Path output) throws IOException {
        if (!Files.exists(output)) {
            Files.move(made, output, StandardCopyOption.ATOMIC_MOVE);
            return;
        }
        removeModel(output);
        List<Path> files;
        try (Stream<Path> all = Files.walk(made)) {
            files = all.filter(Files::isRegularFile)
                    .sorted(Comparator.comparing(f -> f.endsWith(ModelConfig.FILE_NAME)))
                    .toList();
        }
        for (Path file : files) {
            Path to = output.resolve(made.relativize(file).toString());
            Files.createDirectories(to.resolveSibling(""));
            Files.move(file, to, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        }
    }

    private static void removeModel(Path folder) throws IOException {
        List<Path> earlier;
        try (Stream<Path> files = Files.list(folder)) {
            earlier = files.filter(f -> {
                        String name = String.valueOf(f.getFileName());
                        return name.endsWith(".safetensors")
                                || name.endsWith(".safetensors.index.json")
                                || name.equals(ModelConfig.FILE_NAME)
                                || name.equals("hf_quant_config.json");
                    })
                    .toList();
        }
        for (Path file : earlier) {
            Files.delete(file);
        }
    }
}
