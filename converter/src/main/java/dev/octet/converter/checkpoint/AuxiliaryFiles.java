package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.file.PartFile;
import dev.octet.formats.safetensors.ShardIndex;
import java.io.IOException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.FileVisitOption;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Set;

/**
 * The files of a checkpoint's folder that are copied to the output: all but weights, for example tokenizer, generation config, code and
 * licence. Weights in other formats stay behind (they hold the old model), and so do hidden files and folders (version control, caches).
 */
public final class AuxiliaryFiles {
    private static final List<String> WEIGHTS = List.of(
            ".safetensors",
            ".bin",
            ".pt",
            ".pth",
            ".ckpt",
            ".distcp",
            ".gguf",
            ".ggml",
            ".onnx",
            ".onnx_data",
            ".h5",
            ".msgpack",
            ".npz",
            ".tflite",
            ".index.json",
            ".bin.index.json");
    private static final Set<String> REWRITTEN =
            Set.of(ModelConfig.FILE_NAME, "hf_quant_config.json", ShardIndex.FILE_NAME);
    /** What training programs leave next to their checkpoints: which is the latest, how to read it. */
    private static final Set<String> OF_TRAINING = Set.of(
            "latest", "latest_universal", "zero_to_fp32.py", "latest_checkpointed_iteration.txt", "trainer_state.json");

    private final Path source;
    private final List<Path> carried;
    private final List<Path> left;

    private AuxiliaryFiles(Path source, List<Path> carried, List<Path> left) {
        this.source = source;
        this.carried = List.copyOf(carried);
        this.left = List.copyOf(left);
    }

    /**
     * Scans a folder.
     *
     * @param shards names of files in it that hold the checkpoint's own tensors, with any extension
     * @throws FileSystemLoopException when links form a cycle
     */
    public static AuxiliaryFiles of(Path folder, Set<String> shards) throws IOException {
        List<Path> carried = new ArrayList<>();
        List<Path> left = new ArrayList<>();
        // links are followed: a download cache keeps its files elsewhere and links to them
        Files.walkFileTree(folder, EnumSet.of(FileVisitOption.FOLLOW_LINKS), 32, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult preVisitDirectory(Path dir, BasicFileAttributes attributes) {
                boolean skipped = !dir.equals(folder) && (isHidden(dir) || dir.endsWith(KeptScales.FOLDER));
                return skipped ? FileVisitResult.SKIP_SUBTREE : FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
                Path name = folder.relativize(file);
                if (isHidden(file) || REWRITTEN.contains(name.toString()) || shards.contains(name.toString())) {
                    return FileVisitResult.CONTINUE;
                }
                boolean goes = attributes.isRegularFile() && !isWeight(name.toString()) && !isOfTraining(file);
                (goes ? carried : left).add(name);
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFileFailed(Path file, IOException e) throws IOException {
                if (e instanceof FileSystemLoopException) {
                    throw e;
                }
                left.add(folder.relativize(file)); // a dangling link
                return FileVisitResult.CONTINUE;
            }
        });
        carried.sort(null);
        left.sort(null);
        return new AuxiliaryFiles(folder, carried, left);
    }

    private static boolean isOfTraining(Path file) {
        String name = String.valueOf(file.getFileName());
        // Megatron says so next to what describes its tensors
        return OF_TRAINING.contains(name)
                || (name.equals("metadata.json") && Files.exists(file.resolveSibling(".metadata")));
    }

    private static boolean isHidden(Path path) {
        return String.valueOf(path.getFileName()).startsWith(".");
    }

    private static boolean isWeight(String name) {
        String lower = name.toLowerCase(Locale.ROOT);
        return WEIGHTS.stream().anyMatch(lower::endsWith);
    }

    /** Files to copy, by path within the folder. */
    public List<Path> carried() {
        return carried;
    }

    /** Files that stay behind, without the files of the checkpoint's own tensors. */
    public List<Path> left() {
        return left;
    }

    /** Copies the files into {@code target}; each has a hidden name until it is complete. */
    public void copyTo(Path target) throws IOException {
        for (Path name : carried) {
            Path to = target.resolve(name.toString());
            Files.createDirectories(Objects.requireNonNull(to.getParent()));
            Path part = PartFile.partOf(to);
            try {
                Files.copy(source.resolve(name), part, StandardCopyOption.REPLACE_EXISTING);
                Files.move(part, to, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            } finally {
                Files.deleteIfExists(part);
            }
        }
    }
}
