package dev.octet.trainer.checkpoint;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.adapter.SavedAdapter;
import dev.octet.trainer.cut.Part;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * One checkpoint: a folder of {@code parameters.safetensors} (F32 masters under the graph's names, readable by any tool),
 * {@code state.safetensors} (all other device state), {@code checkpoint.json} (step, position in the data, settings) and {@code SHA256SUMS}
 * over these, in the format of {@code sha256sum}. In place of the first, a run that trains an adapter has {@code adapter_config.json} and {@code
 * adapter_model.safetensors}, so that PEFT loads the folder as it is. Of what ranks share out each has a file
 * of its own, {@code state-00001-of-00004.safetensors} and so on; what is cut is put together again when it is read. Equal states give equal bytes. An open checkpoint owns the mapped files.
 */
public final class CheckpointFile implements AutoCloseable {
    static final String PARAMETERS = "parameters.safetensors";
    static final String STATE = "state.safetensors";
    static final String JSON = "checkpoint.json";
    static final String SUMS = "SHA256SUMS";

    private static final List<String> ADAPTER_FILES = List.of(PeftConfig.FILE_NAME, PeftAdapter.WEIGHTS_FILE);
    /** Key of the names of an adapter's parameters, each with its key in PEFT's file. */
    private static final String KEYS = "adapter_parameters";
    /** Before the names of trained parameters that PEFT's file does not have, among the state. */
    private static final String PARAMETER = "adapter.parameter:";

    private static final int VERSION = 1;
    private static final int MAX_QUOTED = 60;
    private static final ObjectMapper MAPPER = JsonMapper.builder()
            .enable(SerializationFeature.INDENT_OUTPUT)
            .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS)
            .build();

    private final TrainingState state;
    private final List<Runnable> files;

    private CheckpointFile(TrainingState state, List<Runnable> files) {
        this.state = state;
        this.files = files;
    }

    /**
     * What a rank writes.
     *
     * @param shard names its files
     * @param parts what it has of tensors that are cut, by name
     * @param written called with the name of each tensor that has been written
     */
    record Share(Shard shard, Map<String, Part> parts, Consumer<String> written) {
        Share {
            parts = Map.copyOf(parts);
        }
    }

    /** Writes the files of one process into a new folder; the caller renames it to its final name. */
    static void write(Path folder, TrainingState state, CodedMasters coded, Consumer<String> written)
            throws IOException {
        Share all = new Share(Shard.WHOLE, Map.of(), written);
        writeSums(
                folder,
                List.of(
                        writeJson(folder, state),
                        writeParameters(folder, state, coded, all),
                        writeState(folder, state, all)));
    }

    /** Returns lines of digests. */
    static String writeJson(Path folder, TrainingState state) throws IOException {
        Map<String, Object> json = new LinkedHashMap<>();
        json.put("format", "octet-checkpoint");
        json.put("version", VERSION);
        json.put("octet", OctetVersion.current());
        json.put("step", state.step());
        json.put("micro_batches", state.microBatches());
        json.put("settings", state.settings());
        json.put("numbers", state.numbers());
        state.adapter().ifPresent(a -> json.put(KEYS, a.keys()));
        writeText(folder.resolve(JSON), MAPPER.writeValueAsString(json) + "\n");
        return digests(folder, List.of(JSON));
    }

    /** Writes parameters, or a rank's share of them; returns lines of digests. */
    static String writeParameters(Path folder, TrainingState state, CodedMasters coded, Share share)
            throws IOException {
        SavedAdapter adapter = state.adapter().orElse(null);
        if (adapter != null) {
            PeftAdapter.write(folder, adapter.config(), adapter.tensors(state.parameters()));
            return digests(folder, ADAPTER_FILES);
        }
        String file = share.shard.file(PARAMETERS);
        tensors(folder.resolve(file), state.parameters(), coded, state.step(), share);
        return digests(folder, List.of(file));
    }

    /** Writes the state, or a rank's share of it; returns lines of digests. */
    static String writeState(Path folder, TrainingState state, Share share) throws IOException {
        Map<String, Tensor> own = new TreeMap<>(state.state());
        SavedAdapter adapter = state.adapter().orElse(null);
        if (adapter != null) { // on the first rank alone
            state.parameters().forEach((name, tensor) -> {
                if (!adapter.keys().containsKey(name)) {
                    own.put(PARAMETER + name, tensor);
                }
            });
        }
        String file = share.shard.file(STATE);
        tensors(folder.resolve(file), own, CodedMasters.NONE, state.step(), share);
        return digests(folder, List.of(file));
    }

    private static String digests(Path folder, List<String> files) throws IOException {
        StringBuilder lines = new StringBuilder();
        for (String file : files) {
            lines.append(Sha256.of(folder.resolve(file)))
                    .append("  ")
                    .append(file)
                    .append('\n');
        }
        return lines.toString();
    }

    /** @param digests lines, as the files were written */
    static void writeSums(Path folder, List<String> digests) throws IOException {
        writeText(folder.resolve(SUMS), String.join("", digests));
    }

    private static void tensors(Path file, Map<String, Tensor> tensors, CodedMasters coded, long step, Share share)
            throws IOException {
        List<TensorSpec> specs = new ArrayList<>(coded.specs());
        tensors.forEach((name, tensor) -> specs.add(tensor.spec().withName(name)));
        Map<String, Part> parts = new TreeMap<>(share.parts);
        Set<String> names = specs.stream().map(TensorSpec::name).collect(Collectors.toSet());
        parts.keySet().retainAll(names);
        Map<String, String> metadata = new TreeMap<>(share.shard.metadata(step));
        if (!parts.isEmpty()) {
            metadata.put(CutTensors.KEY, CutTensors.text(parts));
        }
        SafetensorsWriter.Content content = SafetensorsWriter.Content.of(tensors);
        SafetensorsWriter.write(file, specs, metadata, (spec, sink) -> {
            if (tensors.containsKey(spec.name())) {
                content.write(spec, sink);
            } else {
                coded.write(spec.name(), sink);
            }
            share.written.accept(spec.name());
        });
    }

    private static void writeText(Path file, String text) throws IOException {
        try (AtomicFile out = AtomicFile.create(file)) {
            out.write(ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)));
            out.commit();
        }
    }

    /**
     * Verifies the digests of all files, then opens the checkpoint.
     *
     * @throws MalformedModelException when a file is missing, altered or malformed
     * @throws IOException when a file cannot be read
     */
    public static CheckpointFile open(Path folder) throws IOException {
        Listed listed = checkSums(folder);
        boolean hasAdapter = listed.hasAdapter();
        Metadata json = metadata(folder);
        long step = json.count("step");
        long microBatches = json.count("micro_batches");
        Map<String, String> settings = json.texts("settings");
        Map<String, String> numbers = json.texts("numbers");
        Map<String, String> keys = hasAdapter ? json.texts(KEYS) : Map.of();
        List<Runnable> files = new ArrayList<>();
        boolean opened = false;
        try {
            Map<String, Tensor> parameters;
            Optional<PeftAdapter> adapter = Optional.empty();
            if (hasAdapter) {
                PeftAdapter file = PeftAdapter.open(folder);
                files.add(file::close);
                adapter = Optional.of(file);
                parameters = named(file.tensors(), keys, folder);
            } else {
                CutTensors all = new CutTensors(folder);
                for (Shard shard : listed.parameters()) {
                    read(folder.resolve(shard.file(PARAMETERS)), all, files);
                }
                parameters = all.joined(files);
            }
            CutTensors states = new CutTensors(folder);
            for (Shard shard : listed.state()) {
                read(folder.resolve(shard.file(STATE)), states, files);
            }
            Map<String, Tensor> state = states.joined(files);
            if (hasAdapter) {
                takeParameters(state, parameters);
            }
            CheckpointFile checkpoint = new CheckpointFile(
                    new TrainingState(
                            step,
                            microBatches,
                            settings,
                            numbers,
                            parameters,
                            state,
                            adapter.map(a -> new SavedAdapter(a.config(), keys, computed(a.tensors(), keys)))),
                    files);
            opened = true;
            return checkpoint;
        } finally {
            if (!opened) {
                files.forEach(Runnable::run);
            }
        }
    }

    private static void read(Path path, CutTensors all, List<Runnable> files) throws IOException {
        ModelFile file = ModelFile.open(path);
        files.add(file::close);
        all.add(
                path.getFileName().toString(),
                file.model().tensors(),
                file.model().metadata());
    }

    /** An adapter's tensors by the names that the graph has for them. */
    private static Map<String, Tensor> named(Map<String, Tensor> tensors, Map<String, String> keys, Path folder) {
        Map<String, Tensor> named = new TreeMap<>();
        keys.forEach((name, key) -> {
            Tensor tensor = tensors.get(key);
            if (tensor == null) {
                throw damaged(folder, PeftAdapter.WEIGHTS_FILE + " has no '" + key + "'", null);
            }
            named.put(name, new Tensor(new TensorSpec(name, tensor.dtype(), tensor.shape()), tensor.bytes()));
        });
        return named;
    }

    /** The tensors of the adapter's file that are no parameters. */
    private static Map<String, Tensor> computed(Map<String, Tensor> tensors, Map<String, String> keys) {
        Map<String, Tensor> computed = new TreeMap<>(tensors);
        computed.keySet().removeAll(keys.values());
        return computed;
    }

    /** Moves what is a trained parameter from the state to the parameters. */
    private static void takeParameters(Map<String, Tensor> state, Map<String, Tensor> parameters) {
        for (String name : List.copyOf(state.keySet())) {
            if (name.startsWith(PARAMETER)) {
                Tensor t = Objects.requireNonNull(state.remove(name));
                String own = name.substring(PARAMETER.length());
                parameters.put(own, new Tensor(new TensorSpec(own, t.dtype(), t.shape()), t.bytes()));
            }
        }
    }

    /** {@code checkpoint.json}. Its digest is right, but its contents may still be invalid. */
    private record Metadata(JsonNode json, Path folder) {
        long count(String key) {
            JsonNode node = json.path(key);
            if (node.isIntegralNumber() && node.canConvertToLong() && node.asLong() >= 0) {
                return node.asLong();
            }
            throw wrong(key, node, "a whole number from 0 to " + Long.MAX_VALUE);
        }

        Map<String, String> texts(String key) {
            JsonNode node = json.path(key);
            if (!node.isObject()) {
                throw wrong(key, node, "an object of strings");
            }
            Map<String, String> texts = new TreeMap<>();
            for (Map.Entry<String, JsonNode> e : node.properties()) {
                if (!e.getValue().isTextual()) {
                    throw wrong(key + "." + e.getKey(), e.getValue(), "a string");
                }
                texts.put(e.getKey(), e.getValue().textValue());
            }
            return texts;
        }

        private MalformedModelException wrong(String key, JsonNode found, String wanted) {
            String is = found.isMissingNode() ? "is missing" : "is " + shortened(found.toString());
            return damaged(folder, JSON + ": '" + key + "' " + is + ", expected " + wanted, null);
        }

        private static String shortened(String text) {
            return text.length() <= MAX_QUOTED ? text : text.substring(0, MAX_QUOTED) + "...";
        }
    }

    private static Metadata metadata(Path folder) throws IOException {
        JsonNode json;
        try {
            // decoded here: from bytes the parser would guess the encoding, and a wrong guess is not a
            // JsonProcessingException
            json = MAPPER.readTree(new String(Files.readAllBytes(folder.resolve(JSON)), StandardCharsets.UTF_8));
        } catch (JsonProcessingException e) {
            throw damaged(folder, JSON + " is not JSON: " + e.getOriginalMessage(), e);
        }
        if (!json.isObject()) {
            throw damaged(folder, JSON + " is not a JSON object", null);
        }
        if (!"octet-checkpoint".equals(json.path("format").asText())
                || json.path("version").asInt() != VERSION) {
            throw new MalformedModelException(
                    "the checkpoint has version " + json.path("version").asText("?") + ", but this Octet reads "
                            + VERSION,
                    folder.resolve(JSON).toString(),
                    "resume with the Octet that wrote it: " + json.path("octet").asText("unknown"));
        }
        return new Metadata(json, folder);
    }

    /**
     * What {@code SHA256SUMS} says there is.
     *
     * @param hasAdapter whether the checkpoint is of an adapter
     * @param parameters files of parameters, none with an adapter
     */
    private record Listed(boolean hasAdapter, List<Shard> parameters, List<Shard> state) {
        static Listed of(Set<String> files) {
            boolean adapter = files.contains(PeftConfig.FILE_NAME);
            return new Listed(adapter, adapter ? List.of() : Shard.of(PARAMETERS, files), Shard.of(STATE, files));
        }
    }

    /** Compares digests; reports the first file that differs. */
    private static Listed checkSums(Path folder) throws IOException {
        Map<String, String> sums = new LinkedHashMap<>();
        try {
            for (String line : Files.readAllLines(folder.resolve(SUMS))) {
                String[] parts = line.split("  ", 2);
                sums.put(parts.length == 2 ? parts[1] : "", parts[0]);
            }
            Listed listed = Listed.of(sums.keySet());
            check(folder, JSON, sums, "");
            for (String file : listed.hasAdapter() ? ADAPTER_FILES : List.<String>of()) {
                check(folder, file, sums, "");
            }
            for (Shard shard : listed.parameters()) {
                checkShard(folder, shard, PARAMETERS, sums);
            }
            for (Shard shard : listed.state()) {
                checkShard(folder, shard, STATE, sums);
            }
            return listed;
        } catch (NoSuchFileException e) {
            throw damaged(folder, Path.of(e.getFile()).getFileName() + " is missing", e);
        } catch (CharacterCodingException e) {
            throw damaged(folder, SUMS + " is not text", e);
        }
    }

    private static void checkShard(Path folder, Shard shard, String whole, Map<String, String> sums)
            throws IOException {
        String file = shard.file(whole);
        if (!Files.exists(folder.resolve(file))) {
            throw damaged(folder, file + " is missing" + shard.owner(), null);
        }
        String other = shard.ranks() == 1
                ? ""
                : shard.otherStep(folder, whole, metadata(folder).count("step"));
        if (!other.isEmpty()) {
            throw damaged(folder, other, null);
        }
        check(folder, file, sums, shard.owner());
    }

    private static void check(Path folder, String file, Map<String, String> sums, String whose) throws IOException {
        String actual = Sha256.of(folder.resolve(file));
        if (!actual.equals(sums.get(file))) {
            throw damaged(
                    folder,
                    file + " has SHA-256 " + actual + ", not " + sums.getOrDefault(file, "listed") + whose,
                    null);
        }
    }

    static MalformedModelException damaged(Path folder, String what, @Nullable Exception cause) {
        String text = "checkpoint " + folder.getFileName() + " is damaged: " + what;
        String fix = "resume from another checkpoint";
        return cause == null
                ? new MalformedModelException(text, folder.toString(), fix)
                : new MalformedModelException(text, folder.toString(), fix, cause);
    }

    /** The run's state; its tensors are views, valid until {@link #close()}. */
    public TrainingState state() {
        return state;
    }

    @Override
    public void close() {
        files.forEach(Runnable::run);
    }
}
