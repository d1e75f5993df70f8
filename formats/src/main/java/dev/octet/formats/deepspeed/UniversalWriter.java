package dev.octet.formats.deepspeed;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.pickle.Pickler;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.formats.torch.ArchivesFile;
import dev.octet.formats.torch.TorchArchive;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * Writes a folder that DeepSpeed loads with {@code load_universal_checkpoint}, of any stage and any number of ranks, to start training from weights. There is no state of an
 * optimizer in it: moments are zero, each file of them holds one element. {@code latest_universal} comes last, so that no reader takes an unfinished folder for a
 * checkpoint.
 *
 * <p>Source, what each stage demands: deepspeed/checkpoint/universal_checkpoint.py, deepspeed/runtime/{engine,base_optimizer}.py, deepspeed/runtime/zero/{stage_1_and_2,stage3}.py.
 */
public final class UniversalWriter {
    /** The folder of the only step. */
    public static final String STEP = "global_step0_universal";

    /** Says which step there is. */
    public static final String LATEST = "latest_universal";

    private static final double FORM = 0.4;

    /** Compared with the versions in which the form of stage 1 changed; no newer behaviour depends on it. */
    private static final String VERSION = "0.18.0";

    /** Groups of parameters, each without settings: DeepSpeed takes as many as the optimizer has, which keeps its own. */
    private static final int GROUPS = 1024;

    /** Moments of Adam, which stage 3 demands. */
    private static final List<String> MOMENTS = List.of("exp_avg.pt", "exp_avg_sq.pt");

    private UniversalWriter() {}

    /**
     * Writes parameters.
     *
     * @param folder is there
     * @param parameters in F32
     * @param content provides the bytes of one parameter at a time, in the order given
     * @return bytes written
     * @throws UnsupportedModelException when one is of another type, or its name is no name of a folder; nothing is written then
     * @throws IOException when writing fails; {@code latest_universal} is not there then
     */
    public static long write(Path folder, Collection<TensorSpec> parameters, SafetensorsWriter.Content content)
            throws IOException {
        parameters.forEach(UniversalWriter::require);
        Files.deleteIfExists(folder.resolve(LATEST));
        Path step = folder.resolve(STEP);
        Path zero = Files.createDirectories(step.resolve(UniversalFolder.PARAMETERS));
        long bytes = 0;
        for (TensorSpec parameter : parameters) {
            Path own = Files.createDirectories(zero.resolve(parameter.name()));
            bytes += ArchivesFile.write(
                    own.resolve(UniversalFolder.WEIGHTS),
                    TorchArchive.ofEntry(UniversalFolder.PARAMETER, parameter),
                    content);
            for (String moment : MOMENTS) {
                bytes += ArchivesFile.write(
                        own.resolve(moment),
                        TorchArchive.ofRepeated(UniversalFolder.PARAMETER, parameter),
                        UniversalWriter::zero);
            }
        }
        bytes += object(zero.resolve("optimizer_state.pt"), optimizer());
        for (String name : UniversalFolder.MODEL_STATES) {
            bytes += object(step.resolve(name), model(parameters));
        }
        byte[] latest = STEP.getBytes(StandardCharsets.US_ASCII);
        Files.write(folder.resolve(LATEST), latest);
        return bytes + latest.length;
    }

    /** Deletes the step that {@link #write} made in a folder, if there is one; other files stay. */
    public static void delete(Path folder) throws IOException {
        Files.deleteIfExists(folder.resolve(LATEST));
        Path step = folder.resolve(STEP);
        if (!Files.isDirectory(step, LinkOption.NOFOLLOW_LINKS)) {
            return;
        }
        List<Path> all;
        try (Stream<Path> files = Files.walk(step)) {
            all = files.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path file : all) {
            Files.delete(file);
        }
    }

    private static void require(TensorSpec parameter) {
        String name = parameter.name();
        if (parameter.dtype() != DType.F32) {
            throw new IllegalArgumentException(parameter + " is not F32");
        }
        if (!UniversalFolder.isFolderName(name)) {
            throw new UnsupportedModelException(
                    "the parameter '" + name + "' cannot have a folder of its name",
                    name,
                    "rename it; DeepSpeed keeps each parameter in a folder called so");
        }
    }

    private static void zero(TensorSpec spec, ByteSink sink) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            sink.write(arena.allocate(spec.byteSize()));
        }
    }

    private static long object(Path path, Pickler pickle) throws IOException {
        return ArchivesFile.write(path, TorchArchive.ofObject(pickle), (spec, sink) -> {});
    }

    /** Stages 1 and 2 read the version and the groups; stage 3 the step and the first of its own groups. */
    private static Pickler optimizer() {
        Pickler p = new Pickler();
        p.dict().mark();
        p.text("ds_version").text(VERSION);
        p.text("param_groups").list().mark();
        for (int i = 0; i < GROUPS; i++) {
            p.dict();
        }
        p.appends();
        p.text("optimizer_state_dict").dict().mark();
        p.text("state").dict().mark();
        p.number(0).dict().mark().text("step").number(0).items();
        p.items();
        p.text("param_groups").list().mark().dict().appends();
        p.items();
        return p.items();
    }

    /** What the engine reads whatever its stage. The module's weights are not among it: they come from the parameters' folders. */
    private static Pickler model(Collection<TensorSpec> parameters) {
        Pickler p = new Pickler();
        p.dict().mark();
        p.text("module").dict();
        p.text("buffer_names").list();
        p.text("param_shapes").list().mark().dict().mark();
        for (TensorSpec parameter : parameters) {
            p.text(parameter.name());
            p.global("torch", "Size").mark().mark();
            for (long d : parameter.shape().toArray()) {
                p.number(d);
            }
            p.tuple().tuple().reduce();
        }
        p.items().appends();
        for (String key : List.of("frozen_param_shapes", "frozen_param_fragments", "optimizer", "lr_scheduler")) {
            p.text(key).none();
        }
        p.text("shared_params").dict();
        for (String key : List.of("global_steps", "global_samples", "skipped_steps")) {
            p.text(key).number(0);
        }
        p.text("dp_world_size").number(1);
        p.text("mp_world_size").number(1);
        p.text("ds_version").text(VERSION);
        p.text("universal_checkpoint_info").dict().mark();
        p.text("universal_checkpoint_version").real(FORM).items();
        return p.items();
    }
}
