package dev.octet.formats.deepspeed;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.file.OpenFiles;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.model.PiecedShards;
import dev.octet.formats.model.PiecedShards.Located;
import dev.octet.formats.model.ShardSet;
import dev.octet.formats.torch.FolderFormat;
import dev.octet.formats.torch.StateDict;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.regex.Pattern;

/** Checkpoints of DeepSpeed, stages 0 to 3 and universal: the folder with {@code latest}, or a step's folder in it. */
public final class DeepSpeedFormat implements FolderFormat {
    private static final List<String> LATEST = List.of("latest_universal", "latest");
    private static final Pattern TAG = Pattern.compile("[\\w.+=@ -]{1,255}");

    /** The format; stateless. */
    public DeepSpeedFormat() {}

    @Override
    public String name() {
        return "deepspeed";
    }

    /** Recognises a folder of ranks' states, one of universal parameters, and one whose {@code latest} names such a folder. */
    @Override
    public boolean recognises(Path path) throws IOException {
        return Files.isDirectory(path) && step(path).isPresent();
    }

    /** The folder of the step; empty where there is none. */
    private static Optional<Path> step(Path path) throws IOException {
        if (UniversalFolder.isOne(path) || ZeroFolder.isOne(path)) {
            return Optional.of(path);
        }
        for (String name : LATEST) {
            Path latest = path.resolve(name);
            if (Files.isRegularFile(latest)) {
                String tag = new String(MappedFile.head(latest, 256), StandardCharsets.UTF_8).strip();
                if (TAG.matcher(tag).matches() && !tag.equals(".") && !tag.equals("..")) {
                    Path step = path.resolve(tag);
                    if (Files.isDirectory(step) && (UniversalFolder.isOne(step) || ZeroFolder.isOne(step))) {
                        return Optional.of(step);
                    }
                }
            }
        }
        return Optional.empty();
    }

    @Override
    public ShardSet shards(Path path, Consumer<MalformedModelException> problems) throws IOException {
        Path step = step(path.toAbsolutePath())
                .orElseThrow(() -> new UnsupportedModelException(
                        "there is no checkpoint of DeepSpeed in this folder",
                        path.toString(),
                        "give the folder with 'latest', or a step's folder"));
        try (OpenFiles files = new OpenFiles()) {
            Map<String, Located> weights = UniversalFolder.isOne(step)
                    ? UniversalFolder.weights(step, files)
                    : ZeroFolder.weights(step, files);
            List<StateDict.Saved<Located>> saved = weights.entrySet().stream()
                    .map(e -> new StateDict.Saved<>(List.of(e.getKey()), e.getValue()))
                    .toList();
            StateDict<Located> names = StateDict.of(saved, step.toString());
            List<Located> located = new ArrayList<>();
            names.names()
                    .forEach((name, tensor) ->
                            located.add(new Located(tensor.spec().withName(name), tensor.pieces())));
            List<String> notes = new ArrayList<>(names.notes());
            int states = names.extraStates().isEmpty()
                    ? ZeroFolder.extraStates(step, files).size()
                    : 0;
            if (states > 0) {
                notes.add(ExtraState.leftOut(states));
            }
            notes.add("weights are the optimizer's, in FP32; its moments are left out");
            Path anchor = located.isEmpty()
                    ? step
                    : located.getFirst().pieces().files().stream().findFirst().orElse(step);
            return PiecedShards.of(anchor, located, notes);
        }
    }

    /** Those that the first rank's model states have. */
    @Override
    public List<ExtraState> extraStates(Path path) throws IOException {
        Optional<Path> step = step(path.toAbsolutePath());
        if (step.isEmpty()) {
            return List.of();
        }
        try (OpenFiles files = new OpenFiles()) {
            return ZeroFolder.extraStates(step.get(), files);
        }
    }
}
