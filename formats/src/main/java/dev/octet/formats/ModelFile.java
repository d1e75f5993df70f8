package dev.octet.formats;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.file.RunPaths;
import dev.octet.formats.gguf.GgufFile;
import dev.octet.formats.model.Model;
import dev.octet.formats.model.ModelFormat;
import dev.octet.formats.onnx.OnnxFormat;
import dev.octet.formats.safetensors.SafetensorsFormat;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A model opened from a file or folder of any supported format. Owns the mapped memory: the tensors of {@link #model()} are views, invalid
 * after {@link #close()}. Opening reads headers and graph only; several threads may read the tensors.
 */
public final class ModelFile implements AutoCloseable {
    /** All formats, in the order of recognition. */
    public static final List<ModelFormat> FORMATS = Stream.concat(
                    Checkpoint.FORMATS.stream(), Stream.of(new OnnxFormat()))
            .toList();

    private static final System.Logger LOG = System.getLogger(ModelFile.class.getName());

    /** Files that readers of a model look for in its folder. */
    private static final List<String> BESIDE = List.of(
            "config.json",
            "generation_config.json",
            "hf_quant_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
            "octet-scales");

    private static final byte[] GIT_LFS_POINTER =
            "version https://git-lfs.github.com/spec/".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] ZIP = {'P', 'K', 3, 4};
    /** Opcode PROTO (0x80); with a protocol from 2 to 5, it begins every pickle of PyTorch's old format. */
    private static final byte PICKLE_PROTO = (byte) 0x80;

    private final Path path;
    private final ModelFormat format;
    private final Model model;
    private final Arena arena;

    private ModelFile(Path path, ModelFormat format, Model model, Arena arena) {
        this.path = path;
        this.format = format;
        this.model = model;
        this.arena = arena;
    }

    /**
     * Opens a file, an index of shards, or a folder with a model. The content determines the format; for a file that no format recognises,
     * the reader of the name's extension reports the fault.
     *
     * @throws NoSuchFileException when {@code path} does not exist
     * @throws UnsupportedModelException when the file is not a model of a supported format
     * @throws dev.octet.formats.error.MalformedModelException when the model breaks a rule of its format
     * @throws IOException when the model cannot be read
     */
    public static ModelFile open(Path path) throws IOException {
        if (!Files.exists(path)) {
            throw new NoSuchFileException(path.toString());
        }
        ModelFormat format = formatOf(path);
        Arena arena = Arena.ofShared();
        boolean opened = false;
        try {
            ModelFile file = new ModelFile(path, format, format.read(path, arena), arena);
            opened = true;
            return file;
        } finally {
            if (!opened) {
                arena.close();
            }
        }
    }

    /**
     * The other files that belong to the model at {@code path}: shards of an index, external data, and files next to it that its readers
     * use. None for a folder, whose files all belong to the model, and none if the file is not a model.
     *
     * @throws IOException when the file cannot be read
     */
    static List<Path> otherFiles(Path path) throws IOException {
        if (!Files.isRegularFile(path)) {
            return List.of();
        }
        List<Path> files = new ArrayList<>();
        BESIDE.stream()
                .map(name -> path.toAbsolutePath().resolveSibling(name))
                .filter(Files::exists)
                .forEach(files::add);
        for (ModelFormat format : FORMATS) {
            if (format.recognises(path)) {
                try {
                    files.addAll(format.otherFiles(path));
                } catch (OctetException e) {
                    LOG.log(System.Logger.Level.DEBUG, "opening the file will report the fault", e);
                }
                break;
            }
        }
        return files;
    }

    /**
     * Adds the model at {@code path} with all its files to a run's inputs. Looks for the files only if an output exists already, because
     * only then could one be lost.
     *
     * @param paths the run's paths, with all outputs
     * @param name the user's name of the model
     */
    public static RunPaths reading(RunPaths paths, String name, Path path) throws IOException {
        RunPaths more = paths.reading(name, path);
        if (paths.replaces()) {
            for (Path file : otherFiles(path)) {
                more = more.reading(name, file);
            }
        }
        return more;
    }

    private static ModelFormat formatOf(Path path) throws IOException {
        for (ModelFormat format : FORMATS) {
            if (format.recognises(path)) {
                return format;
            }
        }
        if (Files.isDirectory(path)) {
            throw new UnsupportedModelException(
                    "there is no model in this folder",
                    path.toString(),
                    "give a model file, or a folder with model.safetensors or model.safetensors.index.json");
        }
        refuseKnownStrangers(path);
        return byName(path)
                .orElseThrow(() -> new UnsupportedModelException(
                        "the file has none of Octet's formats (" + formatNames() + ")",
                        path.toString(),
                        "export the model to one of these formats"));
    }

    /** Refuses files that users often give instead of a model. */
    private static void refuseKnownStrangers(Path path) throws IOException {
        GgufFile.requireOther(path);
        byte[] head = MappedFile.head(path, GIT_LFS_POINTER.length);
        if (head.length == 0) {
            throw new UnsupportedModelException(
                    "the file is empty", path.toString(), "download or export the model again");
        }
        if (startsWith(head, GIT_LFS_POINTER)) {
            throw new UnsupportedModelException(
                    "the file is a Git LFS pointer, not the model itself",
                    path.toString(),
                    "run `git lfs pull` in its repository, or download the file itself");
        }
        boolean zip = startsWith(head, ZIP);
        boolean pickle = head.length > 1 && head[0] == PICKLE_PROTO && head[1] >= 2 && head[1] <= 5;
        if (zip || pickle) {
            throw new UnsupportedModelException(
                    zip
                            ? "the file is a zip archive (PyTorch checkpoints and NumPy .npz files are), not a model"
                            : "the file is a Python pickle (old PyTorch checkpoints are), not a model",
                    path.toString(),
                    "save it as safetensors or ONNX with the library that made it; Octet runs no pickled code");
        }
    }

    private static boolean startsWith(byte[] head, byte[] magic) {
        return head.length >= magic.length && Arrays.equals(head, 0, magic.length, magic, 0, magic.length);
    }

    private static Optional<ModelFormat> byName(Path path) {
        String name = path.toString().toLowerCase(Locale.ROOT);
        return FORMATS.stream().filter(f -> name.endsWith("." + f.name())).findFirst();
    }

    private static String formatNames() {
        return FORMATS.stream().map(ModelFormat::name).collect(Collectors.joining(", "));
    }

    /**
     * Writes a model in the format of the extension of {@code path} ({@code .onnx}, {@code .safetensors}); an existing folder becomes a
     * safetensors folder. safetensors holds only the tensors of a model, not its graph.
     *
     * @throws UnsupportedModelException when no format has this extension, or the format cannot hold the model
     * @throws IOException when writing fails; an earlier file is unchanged then
     */
    public static void save(Model model, Path path) throws IOException {
        ModelFormat format = Files.isDirectory(path)
                ? new SafetensorsFormat()
                : byName(path)
                        .orElseThrow(() -> new UnsupportedModelException(
                                "the name has no extension of a format",
                                path.toString(),
                                "end it in one of: " + formatNames()));
        format.write(model, path);
    }

    /** The opened path. */
    public Path path() {
        return path;
    }

    /** The format of the model. */
    public ModelFormat format() {
        return format;
    }

    /** The model; its tensors are valid until {@link #close()}. */
    public Model model() {
        return model;
    }

    /** Unmaps the memory; every later access to a tensor throws {@link IllegalStateException}. */
    @Override
    public void close() {
        arena.close();
    }
}
