package dev.octet.formats;

import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.file.RunPaths;
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

/**
 * A model opened from a file or folder of any format Octet knows. It owns the mapped memory: the tensors of {@link #model()} are
 * views that die with {@link #close()}. Opening reads headers and graph only; several threads may read the tensors.
 */
public final class ModelFile implements AutoCloseable {
    /** All formats, in the order they are asked whether they recognise a file. */
    public static final List<ModelFormat> FORMATS = List.of(new SafetensorsFormat(), new OnnxFormat());

    private static final System.Logger LOG = System.getLogger(ModelFile.class.getName());

    /** What readers of a model look for in its folder. */
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
    /** Opcode PROTO (0x80) and a protocol from 2 to 5, as every pickle of PyTorch's old format begins. */
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
     * Opens a file, an index of shards, or a folder with a model. The format is found by content; a file that no format recognises is
     * given to the one its name ends in, whose reader then says what is wrong with it.
     *
     * @throws NoSuchFileException when there is nothing at {@code path}
     * @throws UnsupportedModelException when it is not a model of a known format
     * @throws dev.octet.formats.error.MalformedModelException when it breaks a rule of its format
     * @throws IOException when it cannot be read
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
     * The files that a reader of the model at {@code path} reads besides it: shards of an index, external data, and configuration next to a
     * file. None for a folder, of which all files count, and for what is not a model.
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
                    LOG.log(System.Logger.Level.DEBUG, "who opens it says what is wrong with it", e);
                }
                break;
            }
        }
        return files;
    }

    /**
     * What a run reads, and the model at {@code path} with all its files. They are looked for only where an output is there: nothing else
     * could be lost.
     *
     * @param paths with all outputs
     * @param name what the user knows the model by
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
                        "the file is of no format that Octet knows (" + formatNames() + ")",
                        path.toString(),
                        "export the model to one of these formats"));
    }

    /** Files that are often met where a model was meant. */
    private static void refuseKnownStrangers(Path path) throws IOException {
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
     * Writes a model in the format that the name of {@code path} ends in ({@code .onnx}, {@code .safetensors}); an existing folder becomes a
     * safetensors folder. safetensors holds no graph: only the tensors of a model with a graph are written to it.
     *
     * @throws UnsupportedModelException when the name fits no format, or the format cannot hold the model
     * @throws IOException when it cannot be written; what was there before stays
     */
    public static void save(Model model, Path path) throws IOException {
        ModelFormat format = Files.isDirectory(path)
                ? new SafetensorsFormat()
                : byName(path)
                        .orElseThrow(() -> new UnsupportedModelException(
                                "the name does not say which format to write",
                                path.toString(),
                                "end it in one of: " + formatNames()));
        format.write(model, path);
    }

    /** What was opened. */
    public Path path() {
        return path;
    }

    /** The format it is in. */
    public ModelFormat format() {
        return format;
    }

    /** The model; its tensors may be used until {@link #close()}. */
    public Model model() {
        return model;
    }

    /** Unmaps the memory; every later access to a tensor throws {@link IllegalStateException}. */
    @Override
    public void close() {
        arena.close();
    }
}
