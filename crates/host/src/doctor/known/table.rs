//! Endurance and flash of drives, by their makers' data sheets: terabytes of 10^12 bytes that hosts may
//! write, as of the warranty.

use super::{Family, Size, rated, raw};

const fn gigabytes(models: &'static [&'static str], sold_as: u64, rated_gb: u64) -> Size {
    Size { models, sold_as, raw_gib: 0, rated_gb }
}

pub(super) const FAMILIES: &[Family] = &[
    Family {
        source: "Habr 242199",
        sizes: &[
            raw(&["SAMSUNG SSD 840 PRO"], 512, 512),
            raw(&["SAMSUNG SSD 850 PRO 128GB"], 128, 129),
        ],
    },
    Family { source: "KompyuterPress 01/2011", sizes: &[raw(&["KINGSTON SNV425S264GB"], 64, 64)] },
    Family {
        source: "Samsung, data sheet of the 850 EVO",
        sizes: &[
            rated(
                &["SSD 850 EVO 120GB", "SSD 850 EVO M.2 120GB", "SSD 850 EVO MSATA 120GB"],
                120,
                75,
            ),
            rated(
                &["SSD 850 EVO 250GB", "SSD 850 EVO M.2 250GB", "SSD 850 EVO MSATA 250GB"],
                250,
                75,
            ),
            rated(
                &["SSD 850 EVO 500GB", "SSD 850 EVO M.2 500GB", "SSD 850 EVO MSATA 500GB"],
                500,
                150,
            ),
            rated(&["SSD 850 EVO 1TB", "SSD 850 EVO M.2 1TB", "SSD 850 EVO MSATA 1TB"], 1000, 150),
            rated(&["SSD 850 EVO 2TB", "SSD 850 EVO M.2 2TB", "SSD 850 EVO MSATA 2TB"], 2000, 300),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 850 PRO",
        sizes: &[
            rated(&["SSD 850 PRO 256GB"], 256, 150),
            rated(&["SSD 850 PRO 512GB"], 512, 300),
            rated(&["SSD 850 PRO 1TB"], 1024, 300),
            rated(&["SSD 850 PRO 2TB"], 2048, 450),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 860 EVO",
        sizes: &[
            rated(
                &["SSD 860 EVO 250GB", "SSD 860 EVO M.2 250GB", "SSD 860 EVO MSATA 250GB"],
                250,
                150,
            ),
            rated(
                &["SSD 860 EVO 500GB", "SSD 860 EVO M.2 500GB", "SSD 860 EVO MSATA 500GB"],
                500,
                300,
            ),
            rated(&["SSD 860 EVO 1TB", "SSD 860 EVO M.2 1TB", "SSD 860 EVO MSATA 1TB"], 1000, 600),
            rated(&["SSD 860 EVO 2TB", "SSD 860 EVO M.2 2TB", "SSD 860 EVO MSATA 2TB"], 2000, 1200),
            rated(&["SSD 860 EVO 4TB", "SSD 860 EVO M.2 4TB", "SSD 860 EVO MSATA 4TB"], 4000, 2400),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 860 PRO",
        sizes: &[
            rated(&["SSD 860 PRO 256GB"], 256, 300),
            rated(&["SSD 860 PRO 512GB"], 512, 600),
            rated(&["SSD 860 PRO 1TB"], 1024, 1200),
            rated(&["SSD 860 PRO 2TB"], 2048, 2400),
            rated(&["SSD 860 PRO 4TB"], 4096, 4800),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 860 QVO",
        sizes: &[
            rated(&["SSD 860 QVO 1TB"], 1000, 360),
            rated(&["SSD 860 QVO 2TB"], 2000, 720),
            rated(&["SSD 860 QVO 4TB"], 4000, 1440),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 870 EVO",
        sizes: &[
            rated(&["SSD 870 EVO 250GB"], 250, 150),
            rated(&["SSD 870 EVO 500GB"], 500, 300),
            rated(&["SSD 870 EVO 1TB"], 1000, 600),
            rated(&["SSD 870 EVO 2TB"], 2000, 1200),
            rated(&["SSD 870 EVO 4TB"], 4000, 2400),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 870 QVO",
        sizes: &[
            rated(&["SSD 870 QVO 1TB"], 1000, 360),
            rated(&["SSD 870 QVO 2TB"], 2000, 720),
            rated(&["SSD 870 QVO 4TB"], 4000, 1440),
            rated(&["SSD 870 QVO 8TB"], 8000, 2880),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 950 PRO",
        sizes: &[rated(&["SSD 950 PRO 256GB"], 256, 200), rated(&["SSD 950 PRO 512GB"], 512, 400)],
    },
    Family {
        source: "Samsung, data sheet of the 960 EVO",
        sizes: &[
            rated(&["SSD 960 EVO 250GB"], 250, 100),
            rated(&["SSD 960 EVO 500GB"], 500, 200),
            rated(&["SSD 960 EVO 1TB"], 1000, 400),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 960 PRO",
        sizes: &[
            rated(&["SSD 960 PRO 512GB"], 512, 400),
            rated(&["SSD 960 PRO 1TB"], 1024, 800),
            rated(&["SSD 960 PRO 2TB"], 2048, 1200),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 970 EVO",
        sizes: &[
            rated(&["SSD 970 EVO 250GB"], 250, 150),
            rated(&["SSD 970 EVO 500GB"], 500, 300),
            rated(&["SSD 970 EVO 1TB"], 1000, 600),
            rated(&["SSD 970 EVO 2TB"], 2000, 1200),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 970 EVO Plus",
        sizes: &[
            rated(&["SSD 970 EVO PLUS 250GB"], 250, 150),
            rated(&["SSD 970 EVO PLUS 500GB"], 500, 300),
            rated(&["SSD 970 EVO PLUS 1TB"], 1000, 600),
            rated(&["SSD 970 EVO PLUS 2TB"], 2000, 1200),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 970 PRO",
        sizes: &[rated(&["SSD 970 PRO 512GB"], 512, 600), rated(&["SSD 970 PRO 1TB"], 1024, 1200)],
    },
    Family {
        source: "Samsung, data sheet of the 980",
        sizes: &[
            rated(&["SSD 980 250GB"], 250, 150),
            rated(&["SSD 980 500GB"], 500, 300),
            rated(&["SSD 980 1TB"], 1000, 600),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 980 PRO",
        sizes: &[
            rated(&["SSD 980 PRO 250GB"], 250, 150),
            rated(&["SSD 980 PRO 500GB"], 500, 300),
            rated(&["SSD 980 PRO 1TB"], 1000, 600),
            rated(&["SSD 980 PRO 2TB"], 2000, 1200),
        ],
    },
    Family {
        source: "Samsung, data sheet of the 990 PRO",
        sizes: &[
            rated(&["SSD 990 PRO 1TB"], 1000, 600),
            rated(&["SSD 990 PRO 2TB"], 2000, 1200),
            rated(&["SSD 990 PRO 4TB"], 4000, 2400),
        ],
    },
    Family {
        source: "Samsung, product brief of the PM883",
        sizes: &[
            rated(&["MZ7LH240"], 240, 341),
            rated(&["MZ7LH480"], 480, 683),
            rated(&["MZ7LH960"], 960, 1366),
            rated(&["MZ7LH1T9"], 1920, 2733),
            rated(&["MZ7LH3T8"], 3840, 5466),
            rated(&["MZ7LH7T6"], 7680, 10932),
        ],
    },
    Family {
        source: "Samsung, product brief of the SM883",
        sizes: &[
            rated(&["MZ7KH240"], 240, 1314),
            rated(&["MZ7KH480"], 480, 2628),
            rated(&["MZ7KH960"], 960, 5256),
            rated(&["MZ7KH1T9"], 1920, 10512),
            rated(&["MZ7KH3T8"], 3840, 21024),
        ],
    },
    Family {
        source: "Samsung, product brief of the PM983 (1.3 drive writes a day for 3 years)",
        sizes: &[
            rated(&["MZQLB960"], 960, 1366),
            rated(&["MZQLB1T9"], 1920, 2733),
            rated(&["MZQLB3T8"], 3840, 5466),
            rated(&["MZQLB7T6"], 7680, 10932),
        ],
    },
    Family {
        source: "Crucial, product flyer of the MX500",
        sizes: &[
            rated(&["CT250MX500SSD"], 250, 100),
            rated(&["CT500MX500SSD"], 500, 180),
            rated(&["CT1000MX500SSD"], 1000, 360),
            rated(&["CT2000MX500SSD"], 2000, 700),
            rated(&["CT4000MX500SSD"], 4000, 1000),
        ],
    },
    Family {
        source: "Crucial, product flyer of the MX300",
        sizes: &[
            rated(&["CT275MX300SSD"], 275, 80),
            rated(&["CT525MX300SSD"], 525, 160),
            rated(&["CT750MX300SSD"], 750, 220),
            rated(&["CT1050MX300SSD"], 1050, 360),
            rated(&["CT2050MX300SSD"], 2050, 400),
        ],
    },
    Family {
        source: "Crucial, product flyer of the MX200",
        sizes: &[
            rated(&["CT250MX200SSD"], 250, 80),
            rated(&["CT500MX200SSD"], 500, 160),
            rated(&["CT1000MX200SSD"], 1000, 320),
        ],
    },
    Family {
        source: "Crucial, product flyer of the MX100",
        sizes: &[
            rated(&["CT128MX100SSD"], 128, 72),
            rated(&["CT256MX100SSD"], 256, 72),
            rated(&["CT512MX100SSD"], 512, 72),
        ],
    },
    Family {
        source: "Crucial, product flyer of the M500",
        sizes: &[
            rated(&["CT120M500SSD"], 120, 72),
            rated(&["CT240M500SSD"], 240, 72),
            rated(&["CT480M500SSD"], 480, 72),
            rated(&["CT960M500SSD"], 960, 72),
        ],
    },
    Family {
        source: "Crucial, product flyer of the M550",
        sizes: &[
            rated(&["CT128M550SSD"], 128, 72),
            rated(&["CT256M550SSD"], 256, 72),
            rated(&["CT512M550SSD"], 512, 72),
            rated(&["CT1024M550SSD"], 1024, 72),
        ],
    },
    Family {
        source: "Crucial, product flyer of the BX100",
        sizes: &[
            rated(&["CT120BX100SSD"], 120, 72),
            rated(&["CT250BX100SSD"], 250, 72),
            rated(&["CT500BX100SSD"], 500, 72),
            rated(&["CT1000BX100SSD"], 1000, 72),
        ],
    },
    Family {
        source: "Crucial, product flyer of the BX500",
        sizes: &[
            rated(&["CT120BX500SSD"], 120, 40),
            rated(&["CT240BX500SSD"], 240, 80),
            rated(&["CT480BX500SSD"], 480, 120),
            rated(&["CT1000BX500SSD"], 1000, 360),
            rated(&["CT2000BX500SSD"], 2000, 720),
        ],
    },
    Family {
        source: "Crucial, product flyer of the P1",
        sizes: &[
            rated(&["CT500P1SSD"], 500, 100),
            rated(&["CT1000P1SSD"], 1000, 200),
            rated(&["CT2000P1SSD"], 2000, 400),
        ],
    },
    Family {
        source: "Crucial, product flyer of the P2",
        sizes: &[
            rated(&["CT250P2SSD"], 250, 150),
            rated(&["CT500P2SSD"], 500, 150),
            rated(&["CT1000P2SSD"], 1000, 300),
            rated(&["CT2000P2SSD"], 2000, 600),
        ],
    },
    Family {
        source: "Crucial, product flyers of the P3 and P3 Plus",
        sizes: &[
            rated(&["CT500P3SSD", "CT500P3PSSD"], 500, 110),
            rated(&["CT1000P3SSD", "CT1000P3PSSD"], 1000, 220),
            rated(&["CT2000P3SSD", "CT2000P3PSSD"], 2000, 440),
            rated(&["CT4000P3SSD", "CT4000P3PSSD"], 4000, 800),
        ],
    },
    Family {
        source: "Crucial, product flyers of the P5 and P5 Plus",
        sizes: &[
            rated(&["CT500P5SSD", "CT500P5PSSD"], 500, 300),
            rated(&["CT1000P5SSD", "CT1000P5PSSD"], 1000, 600),
            rated(&["CT2000P5SSD", "CT2000P5PSSD"], 2000, 1200),
        ],
    },
    Family {
        source: "WD, data sheet of the Blue (planar)",
        sizes: &[
            rated(&["WDS250G1B0A", "WDS250G1B0B"], 250, 100),
            rated(&["WDS500G1B0A", "WDS500G1B0B"], 500, 200),
            rated(&["WDS100T1B0A", "WDS100T1B0B"], 1000, 400),
        ],
    },
    Family {
        source: "WD, data sheet of the Blue 3D NAND",
        sizes: &[
            rated(&["WDS250G2B0A", "WDS250G2B0B"], 250, 100),
            rated(&["WDS500G2B0A", "WDS500G2B0B"], 500, 200),
            rated(&["WDS100T2B0A", "WDS100T2B0B"], 1000, 400),
            rated(&["WDS200T2B0A", "WDS200T2B0B"], 2000, 500),
        ],
    },
    Family {
        source: "WD, data sheet of the Blue SN550",
        sizes: &[
            rated(&["WDS250G2B0C"], 250, 150),
            rated(&["WDS500G2B0C"], 500, 300),
            rated(&["WDS100T2B0C"], 1000, 600),
            rated(&["WDS200T2B0C"], 2000, 900),
        ],
    },
    Family {
        source: "WD, data sheet of the Blue SN570",
        sizes: &[
            rated(&["WDS250G3B0C", "WD BLUE SN570 250GB"], 250, 150),
            rated(&["WDS500G3B0C", "WD BLUE SN570 500GB"], 500, 300),
            rated(&["WDS100T3B0C", "WD BLUE SN570 1TB"], 1000, 600),
            rated(&["WDS200T3B0C", "WD BLUE SN570 2TB"], 2000, 900),
        ],
    },
    Family {
        source: "WD, data sheet of the Black SN750",
        sizes: &[
            rated(&["WDS250G3X0C"], 250, 200),
            rated(&["WDS500G3X0C"], 500, 300),
            rated(&["WDS100T3X0C"], 1000, 600),
            rated(&["WDS200T3X0C"], 2000, 1200),
        ],
    },
    Family {
        source: "WD, data sheet of the Black SN770",
        sizes: &[
            rated(&["WDS250G3X0E", "WD_BLACK SN770 250GB"], 250, 200),
            rated(&["WDS500G3X0E", "WD_BLACK SN770 500GB"], 500, 300),
            rated(&["WDS100T3X0E", "WD_BLACK SN770 1TB"], 1000, 600),
            rated(&["WDS200T3X0E", "WD_BLACK SN770 2TB"], 2000, 1200),
        ],
    },
    Family {
        source: "WD, data sheet of the Black SN850",
        sizes: &[
            rated(&["WDS500G1X0E"], 500, 300),
            rated(&["WDS100T1X0E"], 1000, 600),
            rated(&["WDS200T1X0E"], 2000, 1200),
        ],
    },
    Family {
        source: "WD, data sheet of the Black SN850X",
        sizes: &[
            rated(&["WDS100T2X0E", "WD_BLACK SN850X 1000GB"], 1000, 600),
            rated(&["WDS200T2X0E", "WD_BLACK SN850X 2000GB"], 2000, 1200),
            rated(&["WDS400T2X0E", "WD_BLACK SN850X 4000GB"], 4000, 2400),
        ],
    },
    Family {
        source: "WD, data sheet of the Red SA500",
        sizes: &[
            rated(&["WDS500G1R0A", "WDS500G1R0B"], 500, 350),
            rated(&["WDS100T1R0A", "WDS100T1R0B"], 1000, 600),
            rated(&["WDS200T1R0A", "WDS200T1R0B"], 2000, 1300),
            rated(&["WDS400T1R0A", "WDS400T1R0B"], 4000, 2500),
        ],
    },
    Family {
        source: "SanDisk, data sheet of the Ultra 3D",
        sizes: &[
            rated(&["SDSSDH3"], 250, 100),
            rated(&["SDSSDH3"], 500, 200),
            rated(&["SDSSDH3"], 1000, 400),
            rated(&["SDSSDH3"], 2000, 500),
        ],
    },
    Family {
        source: "SanDisk, data sheet of the Extreme PRO (SATA)",
        sizes: &[
            rated(&["SDSSDXPS240G"], 240, 80),
            rated(&["SDSSDXPS480G"], 480, 80),
            rated(&["SDSSDXPS960G"], 960, 80),
        ],
    },
    Family {
        source: "Intel, specification of the SSD 520",
        sizes: &[
            gigabytes(&["SSDSC2CW120A3"], 120, 36500),
            gigabytes(&["SSDSC2CW180A3"], 180, 36500),
            gigabytes(&["SSDSC2CW240A3"], 240, 36500),
            gigabytes(&["SSDSC2CW480A3"], 480, 36500),
        ],
    },
    Family {
        source: "Intel, specification of the SSD 530",
        sizes: &[
            gigabytes(&["SSDSC2BW120A4"], 120, 36500),
            gigabytes(&["SSDSC2BW180A4"], 180, 36500),
            gigabytes(&["SSDSC2BW240A4"], 240, 36500),
            gigabytes(&["SSDSC2BW480A4"], 480, 36500),
        ],
    },
    Family {
        source: "Intel, product brief of the SSD 545s",
        sizes: &[
            rated(&["SSDSC2KW128G8"], 128, 72),
            rated(&["SSDSC2KW256G8"], 256, 144),
            rated(&["SSDSC2KW512G8"], 512, 288),
            rated(&["SSDSC2KW010T8"], 1024, 576),
        ],
    },
    Family {
        source: "Intel, product brief of the SSD 600p",
        sizes: &[
            rated(&["SSDPEKKW128G7"], 128, 72),
            rated(&["SSDPEKKW256G7"], 256, 144),
            rated(&["SSDPEKKW512G7"], 512, 288),
            rated(&["SSDPEKKW010T7"], 1024, 576),
        ],
    },
    Family {
        source: "Intel, product brief of the SSD 760p",
        sizes: &[
            rated(&["SSDPEKKW256G8"], 256, 144),
            rated(&["SSDPEKKW512G8"], 512, 288),
            rated(&["SSDPEKKW010T8"], 1024, 576),
        ],
    },
    Family {
        source: "Intel, product brief of the SSD 660p",
        sizes: &[
            rated(&["SSDPEKNW512G8"], 512, 100),
            rated(&["SSDPEKNW010T8"], 1024, 200),
            rated(&["SSDPEKNW020T8"], 2048, 400),
        ],
    },
    Family {
        source: "Intel, product brief of the SSD 665p",
        sizes: &[rated(&["SSDPEKNW010T9"], 1024, 300), rated(&["SSDPEKNW020T9"], 2048, 600)],
    },
    Family {
        source: "Intel, product brief of the SSD 670p",
        sizes: &[
            rated(&["SSDPEKNU512GZ"], 512, 185),
            rated(&["SSDPEKNU010TZ"], 1024, 370),
            rated(&["SSDPEKNU020TZ"], 2048, 740),
        ],
    },
    Family {
        source: "Intel, specification of the SSD DC S3500",
        sizes: &[
            rated(&["SSDSC2BB080G4"], 80, 45),
            rated(&["SSDSC2BB120G4"], 120, 70),
            rated(&["SSDSC2BB160G4"], 160, 100),
            rated(&["SSDSC2BB240G4"], 240, 140),
            rated(&["SSDSC2BB300G4"], 300, 170),
            rated(&["SSDSC2BB480G4"], 480, 275),
            rated(&["SSDSC2BB600G4"], 600, 330),
            rated(&["SSDSC2BB800G4"], 800, 450),
        ],
    },
    Family {
        source: "Intel, specification of the SSD DC S3510",
        sizes: &[
            rated(&["SSDSC2BB080G6"], 80, 45),
            rated(&["SSDSC2BB120G6"], 120, 70),
            rated(&["SSDSC2BB240G6"], 240, 140),
            rated(&["SSDSC2BB480G6"], 480, 275),
            rated(&["SSDSC2BB800G6"], 800, 450),
        ],
    },
    Family {
        source: "Intel, specification of the SSD DC S3520",
        sizes: &[
            rated(&["SSDSC2BB150G7"], 150, 412),
            rated(&["SSDSC2BB240G7"], 240, 599),
            rated(&["SSDSC2BB480G7"], 480, 945),
            rated(&["SSDSC2BB800G7"], 800, 1663),
            rated(&["SSDSC2BB960G7"], 960, 1750),
        ],
    },
    Family {
        source: "Intel, specification of the SSD DC S3700 (10 drive writes a day for 5 years)",
        sizes: &[
            rated(&["SSDSC2BA100G3"], 100, 1825),
            rated(&["SSDSC2BA200G3"], 200, 3650),
            rated(&["SSDSC2BA400G3"], 400, 7300),
            rated(&["SSDSC2BA800G3"], 800, 14600),
        ],
    },
    Family {
        source: "Intel, specification of the SSD DC P3520",
        sizes: &[
            rated(&["SSDPE2MX450G7"], 450, 590),
            rated(&["SSDPE2MX012T7"], 1200, 1480),
            rated(&["SSDPE2MX020T7"], 2000, 2490),
        ],
    },
    Family {
        source: "Kingston, data sheet of the A400",
        sizes: &[
            rated(&["SA400S37120G", "SA400M8120G"], 120, 40),
            rated(&["SA400S37240G", "SA400M8240G"], 240, 80),
            rated(&["SA400S37480G", "SA400M8480G"], 480, 160),
            rated(&["SA400S37960G", "SA400M8960G"], 960, 300),
        ],
    },
    Family {
        source: "Kingston, data sheet of the UV400",
        sizes: &[
            rated(&["SUV400S37120G"], 120, 50),
            rated(&["SUV400S37240G"], 240, 100),
            rated(&["SUV400S37480G"], 480, 200),
            rated(&["SUV400S37960G"], 960, 400),
        ],
    },
    Family {
        source: "Kingston, data sheet of the SSDNow V300",
        sizes: &[
            rated(&["SV300S37A60G"], 60, 32),
            rated(&["SV300S37A120G"], 120, 64),
            rated(&["SV300S37A240G"], 240, 128),
            rated(&["SV300S37A480G"], 480, 256),
        ],
    },
    Family {
        source: "Kingston, data sheet of the KC600",
        sizes: &[
            rated(&["SKC600256G"], 256, 150),
            rated(&["SKC600512G"], 512, 300),
            rated(&["SKC6001024G"], 1024, 600),
            rated(&["SKC6002048G"], 2048, 1200),
        ],
    },
    Family {
        source: "Kingston, data sheets of the KC2000 and KC2500",
        sizes: &[
            rated(&["SKC2000M8250G", "SKC2500M8250G"], 250, 150),
            rated(&["SKC2000M8500G", "SKC2500M8500G"], 500, 300),
            rated(&["SKC2000M81000G", "SKC2500M81000G"], 1000, 600),
            rated(&["SKC2000M82000G", "SKC2500M82000G"], 2000, 1200),
        ],
    },
    Family {
        source: "Kingston, data sheet of the KC3000",
        sizes: &[
            rated(&["SKC3000S512G"], 512, 400),
            rated(&["SKC3000S1024G"], 1024, 800),
            rated(&["SKC3000D2048G"], 2048, 1600),
            rated(&["SKC3000D4096G"], 4096, 3200),
        ],
    },
    Family {
        source: "Kingston, data sheet of the A2000",
        sizes: &[
            rated(&["SA2000M8250G"], 250, 150),
            rated(&["SA2000M8500G"], 500, 350),
            rated(&["SA2000M81000G"], 1000, 600),
        ],
    },
    Family {
        source: "Kingston, data sheet of the NV1",
        sizes: &[
            rated(&["SNVS250G"], 250, 60),
            rated(&["SNVS500G"], 500, 120),
            rated(&["SNVS1000G"], 1000, 240),
            rated(&["SNVS2000G"], 2000, 480),
        ],
    },
    Family {
        source: "Kingston, data sheet of the NV2",
        sizes: &[
            rated(&["SNV2S250G"], 250, 80),
            rated(&["SNV2S500G"], 500, 160),
            rated(&["SNV2S1000G"], 1000, 320),
            rated(&["SNV2S2000G"], 2000, 640),
        ],
    },
    Family {
        source: "Kingston, data sheet of the DC500R (0.5 drive writes a day for 5 years)",
        sizes: &[
            rated(&["SEDC500R480G"], 480, 438),
            rated(&["SEDC500R960G"], 960, 876),
            rated(&["SEDC500R1920G"], 1920, 1752),
            rated(&["SEDC500R3840G"], 3840, 3504),
        ],
    },
    Family {
        source: "Seagate, data sheet of the FireCuda 510",
        sizes: &[
            rated(&["ZP500GM30001"], 500, 650),
            rated(&["ZP1000GM30001"], 1000, 1300),
            rated(&["ZP2000GM30001"], 2000, 2600),
        ],
    },
    Family {
        source: "Seagate, data sheet of the FireCuda 520",
        sizes: &[
            rated(&["ZP500GM30002"], 500, 850),
            rated(&["ZP1000GM30002"], 1000, 1800),
            rated(&["ZP2000GM30002"], 2000, 3600),
        ],
    },
    Family {
        source: "Seagate, data sheet of the FireCuda 530",
        sizes: &[
            rated(&["ZP500GM30013"], 500, 640),
            rated(&["ZP1000GM30013"], 1000, 1275),
            rated(&["ZP2000GM30013"], 2000, 2550),
            rated(&["ZP4000GM30013"], 4000, 5100),
        ],
    },
    Family {
        source: "SK hynix, data sheet of the Gold S31",
        sizes: &[
            rated(&["SHGS31-250GS"], 250, 200),
            rated(&["SHGS31-500GS"], 500, 300),
            rated(&["SHGS31-1000GS"], 1000, 600),
        ],
    },
    Family {
        source: "SK hynix, data sheet of the Gold P31",
        sizes: &[
            rated(&["SHGP31-500GM"], 500, 500),
            rated(&["SHGP31-1000GM"], 1000, 750),
            rated(&["SHGP31-2000GM"], 2000, 1200),
        ],
    },
    Family {
        source: "SK hynix, data sheet of the Platinum P41",
        sizes: &[
            rated(&["SHPP41-500GM"], 500, 500),
            rated(&["SHPP41-1000GM"], 1000, 750),
            rated(&["SHPP41-2000GM"], 2000, 1200),
        ],
    },
    Family {
        source: "Solidigm, product brief of the P41 Plus",
        sizes: &[
            rated(&["SSDPFKNU512GZ"], 512, 200),
            rated(&["SSDPFKNU010TZ"], 1024, 400),
            rated(&["SSDPFKNU020TZ"], 2048, 800),
        ],
    },
    Family {
        source: "Corsair, data sheet of the Force MP510",
        sizes: &[
            rated(&["FORCE MP510"], 240, 400),
            rated(&["FORCE MP510"], 480, 800),
            rated(&["FORCE MP510"], 960, 1700),
            rated(&["FORCE MP510"], 1920, 3120),
        ],
    },
    Family {
        source: "Corsair, data sheet of the Force MP600",
        sizes: &[
            rated(&["FORCE MP600"], 500, 850),
            rated(&["FORCE MP600"], 1000, 1800),
            rated(&["FORCE MP600"], 2000, 3600),
        ],
    },
    Family {
        source: "ADATA, data sheet of the SU800",
        sizes: &[
            rated(&["SU800"], 128, 100),
            rated(&["SU800"], 256, 200),
            rated(&["SU800"], 512, 400),
            rated(&["SU800"], 1024, 800),
        ],
    },
];
