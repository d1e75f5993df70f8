package dev.octet.formats.peft;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.model.Model;
import dev.octet.formats.safetensors.SafetensorsFormat;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.TreeMap;

/**
 * An adapter in a folder as PEFT writes it. Opening reads configuration and header and maps the tensors; they are views, invalid after {@link
 * #close}. Several threads may read them.
 */
public final class PeftAdapter implements AutoCloseable {
    /** The file of the tensors. */
    public static final String WEIGHTS_FILE = "adapter_model.safetensors";

    /** The file that PEFT wrote before it knew safetensors: a Python pickle. */
    public static final String PICKLE_FILE = "adapter_model.bin";

    private static final Map<String, String> METADATA = Map.of("format", "pt");

    private final Path folder;
    private final PeftConfig config;
    private final Model model;
    private final SequencedMap<String, AdaptedModule> modules;
    private final SequencedMap<String, Tensor> saved;
    private final Arena arena;

    private PeftAdapter(Path folder, PeftConfig config, Model model, Arena arena) {
        this.folder = folder;
        this.config = config;
        this.model = model;
        this.arena = arena;
        SequencedMap<String, Map<PeftRole, Tensor>> found = new LinkedHashMap<>();
        SequencedMap<String, Tensor> whole = new LinkedHashMap<>();
        new TreeMap<>(model.tensors()).forEach((key, tensor) -> {
            PeftKeys.Place place = PeftKeys.parse(key);
            switch (place.role()) {
                case PROMPT -> {}
                case SAVED -> whole.put(place.module(), tensor);
                default ->
                    found.computeIfAbsent(place.module(), m -> new EnumMap<>(PeftRole.class))
                            .put(place.role(), tensor);
            }
        });
        SequencedMap<String, AdaptedModule> all = new LinkedHashMap<>();
        found.forEach((path, tensors) -> all.put(path, new AdaptedModule(path, tensors)));
        this.modules = Collections.unmodifiableSequencedMap(all);
        this.saved = Collections.unmodifiableSequencedMap(whole);
    }

    /**
     * Whether {@code path} is an adapter: a folder with {@code adapter_config.json} and without a model next to it, a folder with nothing
     * but an adapter's tensors, or one of these files itself. Only names are looked at.
     */
    public static boolean isAdapter(Path path) {
        if (!Files.isDirectory(path)) {
            String name = String.valueOf(path.getFileName());
            return Files.isRegularFile(path)
                    && (name.equals(PeftConfig.FILE_NAME) || name.equals(WEIGHTS_FILE) || name.equals(PICKLE_FILE));
        }
        if (Files.exists(path.resolve("model.safetensors"))
                || Files.exists(path.resolve("model.safetensors.index.json"))) {
            return false;
        }
        return Files.exists(path.resolve(PeftConfig.FILE_NAME))
                || Files.exists(path.resolve(WEIGHTS_FILE))
                || Files.exists(path.resolve(PICKLE_FILE));
    }

    /**
     * Opens an adapter.
     *
     * @param path its folder, or one of its files
     * @throws NoSuchFileException when {@code path} does not exist
     * @throws MalformedModelException when configuration or tensors are missing, or break a rule of their format
     * @throws UnsupportedModelException when the method is unknown, or the tensors are a Python pickle
     * @throws IOException when a file cannot be read
     */
    public static PeftAdapter open(Path path) throws IOException {
        if (!Files.exists(path)) {
            throw new NoSuchFileException(path.toString());
        }
        Path folder = Files.isDirectory(path) ? path : path.resolveSibling("");
        Path configFile = folder.resolve(PeftConfig.FILE_NAME);
        if (!Files.exists(configFile)) {
            throw new MalformedModelException(
                    "the adapter has no " + PeftConfig.FILE_NAME,
                    folder.toString(),
                    "copy it from where the adapter comes from; without it rank and scaling are unknown");
        }
        PeftConfig config = PeftConfig.read(configFile);
        Arena arena = Arena.ofShared();
        boolean opened = false;
        try {
            Model model = new SafetensorsFormat().read(weights(folder), arena);
            PeftAdapter adapter = new PeftAdapter(folder, config, model, arena);
            opened = true;
            return adapter;
        } finally {
            if (!opened) {
                arena.close();
            }
        }
    }

    /** The file of the tensors, whose name decides; a file of another format is refused with a hint. */
    private static Path weights(Path folder) throws IOException {
        Path file = folder.resolve(WEIGHTS_FILE);
        if (Files.exists(file)) {
            byte[] head = MappedFile.head(file, 9);
            if (head.length > 1 && (head[0] == 'P' && head[1] == 'K')) {
                throw pickle(file);
            }
            return file;
        }
        if (Files.exists(folder.resolve(PICKLE_FILE))) {
            throw pickle(folder.resolve(PICKLE_FILE));
        }
        throw new MalformedModelException(
                "the adapter has no " + WEIGHTS_FILE, folder.toString(), "copy it from where the adapter comes from");
    }

    private static UnsupportedModelException pickle(Path file) {
        return new UnsupportedModelException(
                "the adapter's tensors are a Python pickle; Octet runs no pickled code",
                file.toString(),
                "load it with PEFT and save it again: save_pretrained writes " + WEIGHTS_FILE);
    }

    /**
     * Writes an adapter whole or not at all: both files are written under temporary names, then the old configuration is removed, the
     * tensors are renamed and the configuration comes last. A crash in between leaves a folder without {@code adapter_config.json}, which
     * readers refuse. Other files of the folder stay.
     *
     * @param folder created if missing
     * @param tensors by key, see {@link PeftKeys}
     * @throws dev.octet.formats.error.UnsupportedModelException when safetensors cannot hold one of the tensors
     * @throws IOException when there is no space or no permission
     */
    public static void write(Path folder, PeftConfig config, Map<String, Tensor> tensors) throws IOException {
        boolean made = !Files.exists(folder);
        Files.createDirectories(folder);
        boolean written = false;
        try (AtomicFile configFile = AtomicFile.create(folder.resolve(PeftConfig.FILE_NAME));
                AtomicFile weightsFile = SafetensorsWriter.begin(folder.resolve(WEIGHTS_FILE), tensors, METADATA)) {
            configFile.write(MemorySegment.ofArray(config.toText().getBytes(StandardCharsets.US_ASCII)));
            Files.deleteIfExists(folder.resolve(PeftConfig.FILE_NAME)); // it must not describe new tensors
            weightsFile.commit();
            configFile.commit();
            written = true;
        } finally {
            if (made && !written) {
                Files.deleteIfExists(folder);
            }
        }
    }

    /** The folder. */
    public Path folder() {
        return folder;
    }

    /** The configuration. */
    public PeftConfig config() {
        return config;
    }

    /** All tensors by key, in the order of the file. */
    public Map<String, Tensor> tensors() {
        return model.tensors();
    }

    /** The metadata of the tensors' file. */
    public Map<String, String> metadata() {
        return model.metadata();
    }

    /** What the adapter holds for each module, by the module's path in the base, sorted by key. */
    public SequencedMap<String, AdaptedModule> modules() {
        return modules;
    }

    /** Parameters of the base that were trained whole, by their path in the base, and tensors with keys that PEFT does not write. */
    public SequencedMap<String, Tensor> saved() {
        return saved;
    }

    /** The virtual tokens of prompt tuning, P-tuning and prefix tuning: [tokens, width]. */
    public Optional<Tensor> prompt() {
        return Optional.ofNullable(model.tensors().get(PeftRole.PROMPT.suffix()));
    }

    /** Unmaps the memory; every later access to a tensor throws {@link IllegalStateException}. */
    @Override
    public void close() {
        arena.close();
    }
}
