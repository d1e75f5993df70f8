package dev.octet.trainer;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.OctetVersion;
import dev.octet.formats.file.AtomicFile;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.TrainingHook.RunStart;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Map;

/** {@code run.json}: the settings and inputs of a run, and for each session its start time, device, plan, versions and command. */
public final class RunManifest {
    /** Name of the file in the folder of a run. */
    public static final String NAME = "run.json";

    private static final System.Logger LOG = System.getLogger(RunManifest.class.getName());
    private static final String SESSIONS = "sessions";

    /** Kind and version of the file, in the form of all JSON answers of Octet. */
    private static final String SCHEMA = "octet/run/1";

    private static final ObjectMapper MAPPER =
            JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();

    private RunManifest() {}

    static void write(Path folder, Map<String, String> settings, RunOptions options, RunStart start)
            throws IOException {
        Path file = folder.resolve(NAME);
        ObjectNode run = MAPPER.createObjectNode().put("schema", SCHEMA);
        ObjectNode told = run.putObject("settings");
        settings.forEach(told::put);
        ArrayNode sessions = run.putArray(SESSIONS);
        if (options.resume() && Files.exists(file)) {
            earlier(file).forEach(sessions::add);
        }
        session(sessions.addObject(), options, start);
        try (AtomicFile out = AtomicFile.create(file)) {
            out.write(ByteBuffer.wrap((MAPPER.writeValueAsString(run) + "\n").getBytes(StandardCharsets.UTF_8)));
            out.commit();
        }
    }

    /** The sessions of an existing manifest; empty when it is damaged, since nothing depends on it. */
    private static JsonNode earlier(Path file) throws IOException {
        try {
            return MAPPER.readTree(new String(Files.readAllBytes(file), StandardCharsets.UTF_8))
                    .path(SESSIONS);
        } catch (JsonProcessingException e) {
            LOG.log(System.Logger.Level.WARNING, file + " was damaged and is written anew", e);
            return MissingNode.getInstance();
        }
    }

    private static void session(ObjectNode session, RunOptions options, RunStart start) {
        RunPlan plan = start.plan();
        session.put("started", Instant.now().truncatedTo(ChronoUnit.SECONDS).toString())
                .put("first_step", start.firstStep())
                .put("last_step", start.lastStep())
                .put("octet", OctetVersion.current())
                .put("java", Runtime.version().toString())
                .put("system", System.getProperty("os.name") + " " + System.getProperty("os.arch"))
                .put("device", plan.device())
                .put("precision", plan.precision())
                .put("trained_parameters", plan.trainedElements())
                .put("frozen_parameters", plan.frozenElements())
                .put("lasting_bytes", plan.lastingBytes())
                .put("temporary_bytes", plan.temporaryBytes());
        plan.activations()
                .ifPresent(a -> session.put("activation_bytes", a.bytes())
                        .put("activation_bytes_plain", a.plainBytes())
                        .put("recomputed", a.again()));
        plan.notes().forEach(session.putArray("notes")::add);
        options.manifest().forEach(session::put);
    }
}
