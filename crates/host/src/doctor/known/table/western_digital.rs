//! Western Digital's and SanDisk's drives.

use super::{Family, rated, unverified};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        source: "WD, data sheet of the Blue (planar)",
        quoted_source: "Tech ARP, review of the WD Blue",
        sizes: &[
            rated(&["WDS250G1B0A", "WDS250G1B0B"], 250, 100),
            rated(&["WDS500G1B0A", "WDS500G1B0B"], 500, 200),
            rated(&["WDS100T1B0A", "WDS100T1B0B"], 1000, 400),
        ],
    },
    Family {
        source: "WD, data sheet of the Blue 3D NAND",
        quoted_source: "check_smart, list of warranties",
        sizes: &[
            unverified(&["WDS250G2B0A", "WDS250G2B0B"], 250, 100),
            unverified(&["WDS500G2B0A", "WDS500G2B0B"], 500, 200),
            rated(&["WDS100T2B0A", "WDS100T2B0B"], 1000, 400),
            rated(&["WDS200T2B0A", "WDS200T2B0B"], 2000, 500),
        ],
    },
    Family {
        source: "WD, data sheet of the Blue SN550",
        quoted_source: "SSD Wiki, WD Blue SN550",
        sizes: &[
            rated(&["WDS250G2B0C"], 250, 150),
            rated(&["WDS500G2B0C"], 500, 300),
            rated(&["WDS100T2B0C"], 1000, 600),
            rated(&["WDS200T2B0C"], 2000, 900),
        ],
    },
    Family {
        source: "WD, data sheet of the Blue SN570",
        quoted_source: "SSD Wiki, WD Blue SN570",
        sizes: &[
            rated(&["WDS250G3B0C", "WD BLUE SN570 250GB"], 250, 150),
            rated(&["WDS500G3B0C", "WD BLUE SN570 500GB"], 500, 300),
            rated(&["WDS100T3B0C", "WD BLUE SN570 1TB"], 1000, 600),
            rated(&["WDS200T3B0C", "WD BLUE SN570 2TB"], 2000, 900),
        ],
    },
    Family {
        source: "WD, data sheet of the Black SN750",
        quoted_source: "",
        sizes: &[
            unverified(&["WDS250G3X0C"], 250, 200),
            unverified(&["WDS500G3X0C"], 500, 300),
            unverified(&["WDS100T3X0C"], 1000, 600),
            unverified(&["WDS200T3X0C"], 2000, 1200),
        ],
    },
    Family {
        source: "WD, data sheet of the Black SN770",
        quoted_source: "E-Catalog, SN580 beside SN770",
        sizes: &[
            unverified(&["WDS250G3X0E", "WD_BLACK SN770 250GB"], 250, 200),
            unverified(&["WDS500G3X0E", "WD_BLACK SN770 500GB"], 500, 300),
            rated(&["WDS100T3X0E", "WD_BLACK SN770 1TB"], 1000, 600),
            unverified(&["WDS200T3X0E", "WD_BLACK SN770 2TB"], 2000, 1200),
        ],
    },
    Family {
        source: "WD, data sheet of the Black SN850",
        quoted_source: "Tom's Hardware, endurance of hard disks and SSDs",
        sizes: &[
            unverified(&["WDS500G1X0E"], 500, 300),
            unverified(&["WDS100T1X0E"], 1000, 600),
            rated(&["WDS200T1X0E"], 2000, 1200),
        ],
    },
    Family {
        source: "WD, data sheet of the Black SN850X",
        quoted_source: "",
        sizes: &[
            unverified(&["WDS100T2X0E", "WD_BLACK SN850X 1000GB"], 1000, 600),
            unverified(&["WDS200T2X0E", "WD_BLACK SN850X 2000GB"], 2000, 1200),
            unverified(&["WDS400T2X0E", "WD_BLACK SN850X 4000GB"], 4000, 2400),
        ],
    },
    Family {
        source: "WD, data sheet of the Red SA500",
        quoted_source: "check_smart, list of warranties",
        sizes: &[
            rated(&["WDS500G1R0A", "WDS500G1R0B"], 500, 350),
            rated(&["WDS100T1R0A", "WDS100T1R0B"], 1000, 600),
            rated(&["WDS200T1R0A", "WDS200T1R0B"], 2000, 1300),
            rated(&["WDS400T1R0A", "WDS400T1R0B"], 4000, 2500),
        ],
    },
    Family {
        source: "SanDisk, data sheet of the Ultra 3D",
        quoted_source: "check_smart, list of warranties",
        sizes: &[
            unverified(&["SDSSDH3"], 250, 100),
            unverified(&["SDSSDH3"], 500, 200),
            rated(&["SDSSDH3"], 1000, 400),
            rated(&["SDSSDH3"], 2000, 500),
        ],
    },
    Family {
        source: "SanDisk, data sheet of the Extreme PRO (SATA)",
        quoted_source: "",
        sizes: &[
            unverified(&["SDSSDXPS240G"], 240, 80),
            unverified(&["SDSSDXPS480G"], 480, 80),
            unverified(&["SDSSDXPS960G"], 960, 80),
        ],
    },
];
