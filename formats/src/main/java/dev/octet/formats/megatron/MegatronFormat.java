package dev.octet.formats.megatron;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.dcp.DcpFolder;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.file.OpenFiles;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.model.PiecedShards;
import dev.octet.formats.model.ShardSet;
import dev.octet.formats.torch.FolderFormat;
import dev.octet.formats.torch.StateDict;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;

/** Checkpoints of Megatron Core in the form {@code torch_dist}: the folder with {@code latest_checkpointed_iteration.txt}, or an iteration's folder in it. */
public final class MegatronFormat implements FolderFormat {
    private static final String LATEST = "latest_checkpointed_iteration.txt";
    private static final String METADATA = "metadata.json";
    private static final int METADATA_BYTES = 1 << 16;
    private static final ObjectMapper JSON = new ObjectMapper();

    /** The format; stateless. */
    public MegatronFormat() {}

    @Override
    public String name() {
        return "megatron";
    }

    @Override
    public boolean recognises(Path path) throws IOException {
        return Files.isDirectory(path) && step(path).isPresent();
    }

    /** The folder of the iteration; empty where there is none. */
    private static Optional<Path> step(Path path) throws IOException {
        if (isStep(path)) {
            return Optional.of(path);
        }
        Path latest = path.resolve(LATEST);
        if (!Files.isRegularFile(latest)) {
            return Optional.empty();
        }
        String text = new String(MappedFile.head(latest, 64), StandardCharsets.UTF_8).strip();
        String name = text.equals("release")
                ? text
                : text.matches("\\d{1,9}") ? String.format(Locale.ROOT, "iter_%07d", Integer.parseInt(text)) : "";
        return name.isEmpty() || !isStep(path.resolve(name)) ? Optional.empty() : Optional.of(path.resolve(name));
    }

    private static boolean isStep(Path folder) throws IOException {
        Path metadata = folder.resolve(METADATA);
        if (!DcpFolder.isOne(folder) || !Files.isRegularFile(metadata)) {
            return false;
        }
        try {
            JsonNode json = JSON.readTree(MappedFile.head(metadata, METADATA_BYTES));
            return json != null && json.path("sharded_backend").asText("").equals("torch_dist");
        } catch (JsonProcessingException _) {
            return false;
        }
    }

    @Override
    public ShardSet shards(Path path, Consumer<MalformedModelException> problems) throws IOException {
        Path given = path.toAbsolutePath();
        Path step = step(given)
                .orElseThrow(() -> new UnsupportedModelException(
                        "there is no checkpoint of Megatron in the form torch_dist in this folder",
                        path.toString(),
                        "give the folder with " + LATEST + ", or an iteration's folder"));
        try (OpenFiles files = new OpenFiles()) {
            DcpFolder folder = DcpFolder.open(step);
            Path above = step.getParent();
            MegatronSizes sizes = MegatronSizes.of(above == null ? List.of(step) : List.of(step, above), step, files);
            MegatronNames names = new MegatronNames(sizes, folder.description());
            StateDict<DcpFolder.DcpKey> weights =
                    StateDict.of(folder.keys(), folder.description().toString());
            for (Map.Entry<String, DcpFolder.DcpKey> e : weights.names().entrySet()) {
                names.add(e.getKey(), folder.located(files, e.getValue()));
            }
            List<String> notes = new ArrayList<>(weights.notes());
            notes.addAll(folder.notes());
            notes.add("tensors of Megatron are cut into those of transformers by the heads in "
                    + sizes.from().getFileName());
            if (sizes.vocabulary() == 0) {
                notes.add("rows of the embedding that pad the vocabulary are kept: neither config.json nor Megatron's"
                        + " arguments say how many are tokens");
            }
            return PiecedShards.of(folder.description(), names.found(), notes);
        } catch (MalformedModelException e) {
            problems.accept(e);
            return new PiecedShards(List.of(), List.of());
        }
    }

    /** By Megatron's names; of layers that share a tensor, each layer's is a shard. */
    @Override
    public List<ExtraState> extraStates(Path path) throws IOException {
        Optional<Path> step = step(path.toAbsolutePath());
        if (step.isEmpty()) {
            return List.of();
        }
        List<ExtraState> stored = DcpFolder.open(step.get()).extraStates();
        boolean gpt2 = !stored.isEmpty() && isGpt2(step.get());
        return stored.stream()
                .map(s -> new ExtraState(s.module(), MegatronNames.linears(s.module(), gpt2), s.bytes(), s.where()))
                .toList();
    }

    /** Whether weights get GPT-2's names; not where the sizes are unknown, without which there are no weights either. */
    private static boolean isGpt2(Path step) throws IOException {
        Path above = step.getParent();
        try (OpenFiles files = new OpenFiles()) {
            return MegatronSizes.of(above == null ? List.of(step) : List.of(step, above), step, files)
                    .gpt2();
        } catch (MalformedModelException | UnsupportedModelException _) {
            return false;
        }
    }
}
