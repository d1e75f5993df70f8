package dev.octet.trainer.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** What torchrun's variables say of a process. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TorchrunRendezvousTest {
    private static final String SECRET = "0123456789abcdef";

    private static Map<String, String> variables(int rank, int size, int group, int groups) {
        int local = size / groups;
        Map<String, String> variables = new HashMap<>();
        variables.put("RANK", String.valueOf(rank));
        variables.put("WORLD_SIZE", String.valueOf(size));
        variables.put("LOCAL_RANK", String.valueOf(rank % local));
        variables.put("LOCAL_WORLD_SIZE", String.valueOf(local));
        variables.put("GROUP_RANK", String.valueOf(group));
        variables.put("GROUP_WORLD_SIZE", String.valueOf(groups));
        variables.put("MASTER_ADDR", "192.0.2.7");
        variables.put("MASTER_PORT", "29500");
        return variables;
    }

    @Test
    void on_one_machine_the_first_process_is_the_relay_and_needs_no_secret() {
        TorchrunRendezvous first = TorchrunRendezvous.of(variables(0, 4, 0, 1));
        assertEquals(new RelayPlace(0, 1, 4, 4), first.place());
        assertTrue(first.isRelay());
        assertFalse(TorchrunRendezvous.of(variables(1, 4, 0, 1)).isRelay());
        Map<String, String> virtual = variables(3, 4, 0, 1);
        virtual.put("LOCAL_RANK", "0");
        assertFalse(TorchrunRendezvous.of(virtual).isRelay(), "--virtual-local-rank tells all that they are the first");
    }

    @Test
    void on_several_machines_each_has_a_relay_and_all_meet_beside_torchruns_store() throws IOException {
        Map<String, String> variables = variables(2, 4, 1, 2);
        variables.put("OCTET_RELAY_SECRET", SECRET);
        TorchrunRendezvous second = TorchrunRendezvous.of(variables);
        assertEquals(new RelayPlace(1, 2, 2, 4), second.place());
        assertTrue(second.isRelay());
        assertEquals(new Invitation("192.0.2.7", 29501, SECRET), second.await());
        assertEquals("192.0.2.7", second.door().getHostString());
        assertFalse(TorchrunRendezvous.of(variables(3, 4, 1, 2)).isRelay());
        variables.put("OCTET_RELAY_PORT", "4000");
        variables.put("MASTER_ADDR", "127.0.0.1");
        assertEquals(
                "0.0.0.0",
                TorchrunRendezvous.of(variables).door().getHostString(),
                "a machine may know itself only by an address that others cannot reach");
        assertEquals(4000, TorchrunRendezvous.of(variables).door().getPort());
        variables.remove("OCTET_RELAY_PORT");
        variables.put("MASTER_PORT", "65535");
        assertEquals(65534, TorchrunRendezvous.of(variables).await().port());
    }

    @Test
    void processes_of_which_it_is_not_said_who_share_a_machine_are_relays_each() {
        Map<String, String> variables = Map.of(
                "RANK",
                "2",
                "WORLD_SIZE",
                "3",
                "MASTER_ADDR",
                "worker-0",
                "MASTER_PORT",
                "23456",
                "OCTET_RELAY_SECRET",
                SECRET);
        TorchrunRendezvous third = TorchrunRendezvous.of(variables);
        assertEquals(new RelayPlace(2, 3, 1, 3), third.place());
        assertTrue(third.isRelay());
    }

    @Test
    void several_machines_without_a_secret_or_with_a_short_one_are_refused_with_how_to_make_one() {
        for (String secret : List.of("", "too short")) {
            Map<String, String> variables = variables(0, 4, 0, 2);
            variables.put("OCTET_RELAY_SECRET", secret);
            InvalidOptionException refused =
                    assertThrows(InvalidOptionException.class, () -> TorchrunRendezvous.of(variables));
            assertEquals("environment variable OCTET_RELAY_SECRET", refused.where());
            assertTrue(refused.fix().contains("openssl rand -hex 32"), refused.fix());
        }
    }

    @Test
    void variables_that_make_no_sense_are_named() {
        Map<String, String> variables = variables(0, 4, 0, 1);
        variables.put("LOCAL_WORLD_SIZE", "many");
        assertEquals(
                "environment variable LOCAL_WORLD_SIZE",
                assertThrows(InvalidOptionException.class, () -> TorchrunRendezvous.of(variables))
                        .where());
        variables.put("LOCAL_WORLD_SIZE", "8");
        assertTrue(assertThrows(InvalidOptionException.class, () -> TorchrunRendezvous.of(variables))
                .what()
                .startsWith("there is no place for rank 0 of 4"));
        Map<String, String> homeless = variables(0, 4, 0, 2);
        homeless.put("OCTET_RELAY_SECRET", SECRET);
        homeless.remove("MASTER_ADDR");
        assertEquals(
                "MASTER_ADDR is not set",
                assertThrows(
                                InvalidOptionException.class,
                                () -> TorchrunRendezvous.of(homeless).await())
                        .what());
    }

    @Test
    void what_launchers_tell_their_processes_does_not_reach_ranks() {
        Map<String, String> environment = new HashMap<>(variables(0, 4, 0, 1));
        environment.putAll(Map.of(
                "OCTET_RELAY_SECRET", SECRET,
                "TORCHELASTIC_RUN_ID", "none",
                "SLURM_PROCID", "3",
                "PMIX_RANK", "3",
                "OMPI_MCA_btl_tcp_if_include", "eth0",
                "PMIX_MCA_gds", "hash",
                "PATH", "/usr/bin"));
        assertEquals(
                Map.of("OMPI_MCA_btl_tcp_if_include", "eth0", "PMIX_MCA_gds", "hash", "PATH", "/usr/bin"),
                RankCommand.of(List.of("true"), environment).variables());
    }

    @Test
    void the_page_names_the_variables_of_relays() throws IOException {
        String page =
                Files.readString(Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/distributed.md"));
        for (String name :
                List.of(TorchrunRendezvous.SECRET, TorchrunRendezvous.PORT, PlacedRanks.DEADLINE, Mpirun.PROGRAM)) {
            assertTrue(page.contains("`" + name + "`"), name);
        }
    }
}
