PRAGMA application_id = 1651864418;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE cells(
  run INTEGER NOT NULL REFERENCES runs(id), stage TEXT NOT NULL, cell TEXT NOT NULL, scope TEXT NOT NULL,
  collective TEXT NOT NULL, dtype TEXT NOT NULL, op TEXT NOT NULL, root INTEGER NOT NULL, nbytes INTEGER NOT NULL,
  in_place INTEGER NOT NULL, algorithm TEXT NOT NULL, median_s REAL NOT NULL, low_s REAL, high_s REAL, busbw REAL,
  wrong INTEGER, epochs_s TEXT NOT NULL);
INSERT INTO "cells" VALUES(1,'','','all','all_reduce','float','sum',-1,8,0,'',0.00050108175,NULL,NULL,2.39481880950563440083e-05,0,'0.0005010818');
INSERT INTO "cells" VALUES(1,'','','all','all_reduce','float','sum',-1,8,1,'',0.0004542791,NULL,NULL,2.64154789423506367257e-05,0,'0.0004542791');
INSERT INTO "cells" VALUES(1,'','','all','all_reduce','float','sum',-1,256,0,'',0.0005060328,NULL,NULL,7.58844090738782211386e-04,0,'0.0005060328');
INSERT INTO "cells" VALUES(1,'','','all','all_reduce','float','sum',-1,256,1,'',0.0005245114,NULL,NULL,7.32109921729060583034e-04,0,'0.0005245114');
INSERT INTO "cells" VALUES(1,'','','all','all_reduce','float','sum',-1,8192,0,'',0.0010919717,NULL,NULL,1.12530388837000089319e-02,0,'0.001091972');
INSERT INTO "cells" VALUES(1,'','','all','all_reduce','float','sum',-1,8192,1,'',9.21901800000000091507e-04,NULL,NULL,1.33289684432767105426e-02,0,'0.0009219018');
INSERT INTO "cells" VALUES(1,'','','all','all_reduce','float','sum',-1,262144,0,'',6.71159440000000055009e-03,NULL,NULL,5.85875689985080119748e-02,0,'0.006711594');
INSERT INTO "cells" VALUES(1,'','','all','all_reduce','float','sum',-1,262144,1,'',0.00681254015,NULL,NULL,5.77194396424951794433e-02,0,'0.00681254');
INSERT INTO "cells" VALUES(2,'','','all','all_gather','float','none',-1,1024,0,'',0.000532374125,NULL,NULL,1.44259452880058747052e-03,0,'0.0005323741');
INSERT INTO "cells" VALUES(2,'','','all','all_gather','float','none',-1,1024,1,'',0.000474339625,NULL,NULL,1.6190930707085668741e-03,0,'0.0004743396');
INSERT INTO "cells" VALUES(2,'','','all','all_gather','float','none',-1,8192,0,'',0.00046967075,NULL,NULL,1.30815044368847756273e-02,0,'0.0004696707');
INSERT INTO "cells" VALUES(2,'','','all','all_gather','float','none',-1,8192,1,'',0.00051411175,NULL,NULL,1.19507091600221174165e-02,0,'0.0005141117');
INSERT INTO "cells" VALUES(2,'','','all','all_gather','float','none',-1,65536,0,'',0.000825709125,NULL,NULL,5.95270156424636820435e-02,0,'0.0008257091');
INSERT INTO "cells" VALUES(2,'','','all','all_gather','float','none',-1,65536,1,'',0.0006364885,NULL,NULL,7.72237047487896455244e-02,0,'0.0006364885');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','sum',0,4096,0,'',0.000336315,NULL,NULL,1.21790583232980979128e-02,0,'0.000336315');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','sum',0,4096,1,'',2.3103412499999998581e-04,NULL,NULL,1.77289826773425786277e-02,0,'0.0002310341');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','sum',1,4096,0,'',0.000175358125,NULL,NULL,2.33579139831701539098e-02,0,'0.0001753581');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','sum',1,4096,1,'',0.000230065375,NULL,NULL,1.78036351623967782631e-02,0,'0.0002300654');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','sum',2,4096,0,'',0.000395425625,NULL,NULL,1.03584586861309238536e-02,0,'0.0003954256');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','sum',2,4096,1,'',0.0002517005,NULL,NULL,1.62733089525050611534e-02,0,'0.0002517005');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','sum',3,4096,0,'',0.00024383,NULL,NULL,1.67985891809867560198e-02,0,'0.00024383');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','sum',3,4096,1,'',2.88357000000000044705e-04,NULL,NULL,1.42046144189320860257e-02,0,'0.000288357');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','max',0,4096,0,'',0.000265096,NULL,NULL,1.5451006427860096079e-02,0,'0.000265096');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','max',0,4096,1,'',3.19722625000000036307e-04,NULL,NULL,1.28111046254546397105e-02,0,'0.0003197226');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','max',1,4096,0,'',0.000160110125,NULL,NULL,2.55823921191742249814e-02,0,'0.0001601101');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','max',1,4096,1,'',0.000371648875,NULL,NULL,1.10211553849046354353e-02,0,'0.0003716489');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','max',2,4096,0,'',1.61335375000000018916e-04,NULL,NULL,2.53881084666025651219e-02,0,'0.0001613354');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','max',2,4096,1,'',0.000311081125,NULL,NULL,1.31669833712990472229e-02,0,'0.0003110811');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','max',3,4096,0,'',0.000295769125,NULL,NULL,1.38486395427514612233e-02,0,'0.0002957691');
INSERT INTO "cells" VALUES(3,'','','all','reduce','float','max',3,4096,1,'',0.0002127165,NULL,NULL,1.92556759818819887841e-02,0,'0.0002127165');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','sum',0,4096,0,'',0.00020812375,NULL,NULL,1.96805986822743660125e-02,0,'0.0002081238');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','sum',0,4096,1,'',0.000301654375,NULL,NULL,1.3578453818214967011e-02,0,'0.0003016544');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','sum',1,4096,0,'',0.000178046125,NULL,NULL,2.30052746163388818767e-02,0,'0.0001780461');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','sum',1,4096,1,'',0.00011561075,NULL,NULL,3.54292312782332058374e-02,0,'0.0001156107');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','sum',2,4096,0,'',7.58865e-05,NULL,NULL,5.39753447582903347901e-02,0,'7.58865e-05');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','sum',2,4096,1,'',0.0002915445,NULL,NULL,1.40493132266257814144e-02,0,'0.0002915445');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','sum',3,4096,0,'',0.00026626375,NULL,NULL,1.53832431188999623622e-02,0,'0.0002662638');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','sum',3,4096,1,'',0.0002519495,NULL,NULL,1.62572261504785667285e-02,0,'0.0002519495');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','max',0,4096,0,'',2.41062750000000015513e-04,NULL,NULL,1.69914265061690376856e-02,0,'0.0002410628');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','max',0,4096,1,'',2.22243249999999983347e-04,NULL,NULL,0.0184302560370225,0,'0.0002222432');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','max',1,4096,0,'',0.0004601225,NULL,NULL,8.9019771908567819213e-03,0,'0.0004601225');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','max',1,4096,1,'',0.000185901,NULL,NULL,2.20332327421584629745e-02,0,'0.000185901');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','max',2,4096,0,'',0.000266043,NULL,NULL,1.53960074123356011749e-02,0,'0.000266043');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','max',2,4096,1,'',3.00830500000000039713e-04,NULL,NULL,1.3615640701325162909e-02,0,'0.0003008305');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','max',3,4096,0,'',7.4642125e-05,NULL,NULL,5.48751793976926596774e-02,0,'7.464212e-05');
INSERT INTO "cells" VALUES(3,'','','all','reduce','int32','max',3,4096,1,'',4.18055e-05,NULL,NULL,9.79775388405831754168e-02,0,'4.18055e-05');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','sum',0,4096,0,'',0.000262148875,NULL,NULL,1.56247094327602968621e-02,0,'0.0002621489');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','sum',0,4096,1,'',0.000230811,NULL,NULL,1.77461212853806810096e-02,0,'0.000230811');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','sum',1,4096,0,'',0.0001057895,NULL,NULL,3.8718398328756641058e-02,0,'0.0001057895');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','sum',1,4096,1,'',0.00014356875,NULL,NULL,2.85298855078142017671e-02,0,'0.0001435687');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','sum',2,4096,0,'',0.000155696375,NULL,NULL,2.63076131348594366432e-02,0,'0.0001556964');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','sum',2,4096,1,'',0.000253740875,NULL,NULL,1.61424524133133850956e-02,0,'0.0002537409');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','sum',3,4096,0,'',0.000157228625,NULL,NULL,2.60512358993154058417e-02,0,'0.0001572286');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','sum',3,4096,1,'',0.000368250625,NULL,NULL,1.11228596013923947821e-02,0,'0.0003682506');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','max',0,4096,0,'',0.00028249575,NULL,NULL,1.44993331758088393745e-02,0,'0.0002824957');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','max',0,4096,1,'',0.000204519625,NULL,NULL,2.00274179067167767964e-02,0,'0.0002045196');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','max',1,4096,0,'',1.76720874999999975202e-04,NULL,NULL,2.31777937948756777852e-02,0,'0.0001767209');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','max',1,4096,1,'',0.00018609375,NULL,NULL,2.2010411418975649872e-02,0,'0.0001860938');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','max',2,4096,0,'',1.71363500000000013642e-04,NULL,NULL,2.39024062883869646556e-02,0,'0.0001713635');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','max',2,4096,1,'',2.38032249999999977359e-04,NULL,NULL,1.72077523108738437984e-02,0,'0.0002380322');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','max',3,4096,0,'',3.28759500000000036076e-04,NULL,NULL,1.24589555586986817925e-02,0,'0.0003287595');
INSERT INTO "cells" VALUES(3,'','','all','reduce','bfloat16','max',3,4096,1,'',0.000193768625,NULL,NULL,2.11386131268671596805e-02,0,'0.0001937686');
INSERT INTO "cells" VALUES(4,'','','all','alltoall','float','none',-1,1024,0,'',4.32062083333333327942e-04,NULL,NULL,1.77752232752044687404e-03,0,'0.0004320621');
INSERT INTO "cells" VALUES(4,'','','all','alltoall','float','none',-1,65536,0,'',6.7121941666666668988e-04,NULL,NULL,7.32279173985953268921e-02,0,'0.0006712194');
INSERT INTO "cells" VALUES(5,'','','all','alltoallv','float','none',-1,1008,0,'',3.60267000000000052473e-04,NULL,NULL,2.09844365428973498796e-03,0,'0.000360267');
INSERT INTO "cells" VALUES(5,'','','all','alltoallv','float','none',-1,65520,0,'',6.73169583333333289114e-04,NULL,NULL,7.29979506154652679761e-02,0,'0.0006731696');
INSERT INTO "cells" VALUES(6,'','','all','all_reduce','float','sum',-1,1024,0,'default',0.00027780825,NULL,NULL,5.5289934694164044604e-03,0,'0.0002778083');
INSERT INTO "cells" VALUES(6,'','','all','all_reduce','float','sum',-1,1024,1,'default',0.00031916425,NULL,NULL,4.81256907689379259673e-03,0,'0.0003191643');
INSERT INTO "cells" VALUES(6,'','','all','all_reduce','float','sum',-1,65536,0,'default',1.2610575833333333498e-03,NULL,NULL,7.79536171061710192464e-02,0,'0.001261058');
INSERT INTO "cells" VALUES(6,'','','all','all_reduce','float','sum',-1,65536,1,'default',2.46330908333333362114e-03,NULL,NULL,3.99072940806013964909e-02,0,'0.002463309');
INSERT INTO "cells" VALUES(7,'','','all','all_reduce','float','sum',-1,1024,0,'',0.000696301,6.51669500000000073355e-04,9.68858500000000129326e-04,2.20594254496259524825e-03,0,'0.000696903 0.0006516695 0.000695699 0.0006566095 0.0007242875 0.0006898575 0.0009688585 0.000870842');
INSERT INTO "cells" VALUES(7,'','','all','all_reduce','float','sum',-1,1024,1,'',0.000834394,0.000695025,0.001233541,1.84085695726479334731e-03,0,'0.001075701 0.000760841 0.000813989 0.000721342 0.000695025 0.000854799 0.001233541 0.00089365');
INSERT INTO "cells" VALUES(7,'','','all','all_reduce','float','sum',-1,65536,0,'',0.001621752,0.001269041,0.002137683,6.06159264795110563905e-02,0,'0.001691686 0.001551818 0.001402436 0.001410277 0.001269041 0.002137683 0.001716425 0.002017179');
INSERT INTO "cells" VALUES(7,'','','all','all_reduce','float','sum',-1,65536,1,'',1.38235150000000014958e-03,0.001142871,0.002405627,7.11136060546105619462e-02,0,'0.001325278 0.001340468 0.001142871 0.001218768 0.001424235 0.001811628 0.002254241 0.002405627');
INSERT INTO "cells" VALUES(8,'','','all','all_reduce','float','sum',-1,1024,0,'',6.6076799999999994567e-04,0.000505343,0.000759306,2.32456777567920970517e-03,0,'0.000732782 0.0006704555 0.0006704025 0.0006511335 0.000759306 0.0006025955 0.000505343 0.0005983325');
INSERT INTO "cells" VALUES(8,'','','all','all_reduce','float','sum',-1,1024,1,'',0.0006700895,0.000530586,0.000790968,2.29223111241110347191e-03,0,'0.000674635 0.000719844 0.000679891 0.000790968 0.000665544 0.000530586 0.000557412 0.000551643');
INSERT INTO "cells" VALUES(8,'','','all','all_reduce','float','sum',-1,65536,0,'',0.0012807635,1.11775350000000014624e-03,1.48786650000000018542e-03,7.67542173086600137965e-02,0,'0.001287726 0.001297958 0.001235693 0.001296276 0.001273801 0.001117754 0.001487867 0.001198145');
INSERT INTO "cells" VALUES(8,'','','all','all_reduce','float','sum',-1,65536,1,'',0.001305391,0.001189659,0.001591626,7.53061726333336123317e-02,0,'0.001291085 0.001441731 0.001591626 0.001273886 0.001290046 0.001319697 0.001393923 0.001189659');
INSERT INTO "cells" VALUES(9,'','','all','all_reduce','float','sum',-1,1024,0,'',0.0006050475,0.000510882,0.000752971,2.53864366020849652888e-03,0,'0.000752971 0.000721447 0.000731207 0.000593557 0.000616538 0.000510882 0.000549391 0.00055112');
INSERT INTO "cells" VALUES(9,'','','all','all_reduce','float','sum',-1,1024,1,'',0.000610147,0.0004731935,0.006509064,2.51742612845756849257e-03,0,'0.0006814805 0.0007332335 0.006509064 0.000597608 0.0004731935 0.000622686 0.0005071365 0.0005770385');
INSERT INTO "cells" VALUES(9,'','','all','all_reduce','float','sum',-1,65536,0,'',0.001400962,0.001293728,0.0014876585,7.01689267803123906119e-02,0,'0.001302138 0.001447237 0.001432406 0.001487658 0.001406869 0.001293728 0.001374875 0.001395056');
INSERT INTO "cells" VALUES(9,'','','all','all_reduce','float','sum',-1,65536,1,'',1.38220699999999988016e-03,0.001164327,1.52928684999999991295e-02,7.11210404809120427804e-02,0,'0.001441819 0.001567609 0.01529287 0.001164327 0.003651862 0.001221812 0.001322595 0.001248844');
INSERT INTO "cells" VALUES(10,'','','all','broadcast','float','none',0,1024,1,'',4.08610499999999959852e-04,0.0002969535,0.0004602305,2.5060540539217665383e-03,0,'0.000418993 0.00034735 0.0004602305 0.0004446315 0.000401357 0.000415864 0.0002969535 0.000371641');
INSERT INTO "cells" VALUES(11,'','','default','all_reduce','float','sum',-1,64,0,'default',3.54413000000000037031e-04,NULL,NULL,2.70870425181920528295e-04,0,'0.000376236 0.0003411715 0.0003231365 0.000354413 0.000341075 0.0003935045 0.0003355995 0.0004391525 0.000422843 0.0003203765 0.0002809595 0.000339796 0.0003627465 0.0004176595 0.000412442');
INSERT INTO "cells" VALUES(11,'','','nonoverlapping','all_reduce','float','sum',-1,64,0,'nonoverlapping',0.000542479,NULL,NULL,1.76965375618226691475e-04,0,'0.000481491 0.00042685 0.000717949 0.000536841 0.000510095 0.000451647 0.000542045 0.000645832 0.000553209 0.000542479 0.000634994 0.000563811 0.000548283 0.000472331 0.000682649');
INSERT INTO "cells" VALUES(11,'','','ring','all_reduce','float','sum',-1,64,0,'ring',0.0009891595,NULL,NULL,9.7052093216513614848e-05,0,'0.0008909115 0.0009891595 0.001058334 0.001073473 0.0009499265 0.0009164195 0.00284834 0.0009011375 0.0009024645 0.00106279 0.001072045 0.000887804 0.001196569 0.0007608695 0.001066003');
INSERT INTO "cells" VALUES(11,'','','default','all_reduce','float','sum',-1,16384,0,'default',0.0006993855,NULL,NULL,3.51394188183769898281e-02,0,'0.0006923995 0.0007119275 0.00075442 0.000663095 0.0006924255 0.000743954 0.0006780145 0.00069743 0.0007301135 0.0006712975 0.000760801 0.000724636 0.0009025425 0.000733303 0.0006839605 0.000651747 0.0007954075 0.000713075 0.000692575 0.0006443105 0.0006699135 0.001123999 0.002041876 0.0006993855 0.0007304395 0.0006492715 0.000616731 0.0006636655 0.0007744015 0.0007463335 0.000710777 0.00085813 0.0007599775 0.0006837885 0.00067072 0.0006471405 0.000639275 0.000797218 0.0006929905 0.000687148 0.000721767 0.0007529115 0.0006207765 0.0007652225 0.00068668 0.0006097705 0.00066161 0.0006828705 0.000742319 0.000684567 0.000727198 0.0008355875 0.00942836 0.000601605 0.01583998');
INSERT INTO "cells" VALUES(11,'','','nonoverlapping','all_reduce','float','sum',-1,16384,0,'nonoverlapping',0.00067022,NULL,NULL,3.66685565933574098007e-02,0,'0.000655538 0.000679059 0.000707247 0.000699737 0.000624399 0.000762342 0.000787855 0.000738596 0.000782095 0.000820086 0.000644483 0.000832186 0.000677782 0.004279686 0.000697263 0.000685658 0.000671786 0.00067022 0.000726955 0.000591587 0.000834512 0.000682972 0.000718119 0.000610116 0.00054839 0.00062803 0.000569663 0.00071279 0.000653521 0.000630059 0.000579759 0.000565102 0.000579303 0.000605413 0.000643511 0.000700616 0.00089548 0.000550064 0.000714534 0.003445024 0.000760227 0.000591388 0.000663782 0.000682927 0.000652013 0.000662007 0.000663957 0.000600719 0.000516757 0.000471623 0.003236064 0.000500555 0.000596078 0.000575636 0.005179978');
INSERT INTO "cells" VALUES(11,'','','ring','all_reduce','float','sum',-1,16384,0,'ring',0.001044147,NULL,NULL,2.35369157791000677137e-02,0,'0.000895133 0.001218081 0.000992787 0.001044147 0.001113666 0.000925672 0.001034368 0.00087135 0.001324151 0.000939992 0.001915024 0.001343848 0.001273784 0.001161705 0.001018316');
INSERT INTO "cells" VALUES(11,'','','default','all_gather','float','none',-1,64,0,'default',0.000799197,NULL,NULL,6.00602855115822559239e-05,0,'0.000841065 0.001346976 0.000997517 0.000989373 0.001047707 0.000507531 0.000949376 0.001070841 0.001131321 0.000799197 0.00111587 0.000879283 0.000897635 0.000998701 0.00082807 0.001196779 0.001018306 0.003804286 0.000578787 0.000949899 0.000629578 0.0009018 0.000649375 0.00098531 0.000818063 0.000661011 0.000536371 0.000775005 0.00048703 0.000661794 0.000714801 0.000740831 0.000920861 0.000642002 0.000694799 0.00052923 0.000678698 0.000665859 0.000689816 0.000583463 0.000768392 0.00045151 0.000674617 0.000792249 0.00067834 0.001023398 0.000878662 0.000692543 0.000854899');
INSERT INTO "cells" VALUES(11,'','','bruck','all_gather','float','none',-1,64,0,'bruck',0.000813165,NULL,NULL,5.90286104296176044811e-05,0,'0.000745511 0.000789508 0.001042352 0.000819229 0.001042924 0.001172133 0.000926873 0.000923377 0.001003841 0.000981087 0.00062489 0.001024068 0.001075876 0.00072662 0.00093649 0.000813165 0.00096875 0.000742169 0.01166821 0.000929296 0.000927742 0.000843702 0.001113783 0.000626698 0.00051378 0.000683556 0.000589943 0.00065162 0.000690924 0.000812534 0.000664299 0.000969705 0.000819029 0.000488699 0.000720535 0.000719407 0.000711916 0.000698409 0.000799239 0.000676241 0.000598127 0.000834441 0.000718475 0.000640538 0.000675645 0.004021334 0.001042999 0.001012179 0.000851222');
INSERT INTO "cells" VALUES(11,'','','ring','all_gather','float','none',-1,64,0,'ring',0.001196869,NULL,NULL,4.01046396890553688389e-05,0,'0.001146664 0.000842389 0.00136051 0.00095825 0.001412211 0.001261307 0.001335647 0.001196869 0.001130744 0.001171213 0.00091469 0.001369354 0.001438093 0.001182449 0.001311649');
INSERT INTO "cells" VALUES(11,'','','neighbor','all_gather','float','none',-1,64,0,'neighbor',0.000804694,NULL,NULL,5.96500036038543837582e-05,0,'0.000878717 0.000872588 0.000735483 0.000813589 0.001157037 0.001292809 0.001022908 0.001049403 0.000710159 0.000839313 0.000929631 0.000756277 0.000781978 0.000830814 0.000923699 0.000763693 0.000892498 0.005199726 0.000992652 0.000804694 0.000856904 0.001046723 0.00082991 0.000734989 0.000583223 0.000662008 0.000672557 0.00055978 0.00092551 0.00066993 0.000585484 0.000519298 0.000526488 0.000639707 0.00061277 0.00065267 0.001045959 0.000597365 0.000604637 0.000646781 0.000642046 0.000540604 0.000621937 0.000587583 0.000854994 0.00094282 0.00097855 0.001067286 0.001057519');
INSERT INTO "cells" VALUES(11,'','','default','all_gather','float','none',-1,16384,0,'default',0.000744003,NULL,NULL,1.65160624352321157293e-02,0,'0.000851439 0.000811155 0.000695546 0.000736667 0.000617862 0.000783513 0.00091941 0.000582298 0.001110869 0.000705702 0.001614702 0.000804845 0.000891627 0.001068904 0.001652889 0.000670133 0.000699813 0.000627493 0.000842956 0.000624887 0.000727721 0.000723606 0.000746622 0.000793051 0.000782242 0.000834534 0.000699772 0.000773972 0.000741384 0.000736936 0.000757489 0.000703601 0.000768058 0.000688652 0.000723659 0.000736892 0.000678903 0.000760571 0.0006684 0.000999638 0.000690669 0.000816312 0.000772548 0.000784225 0.000591675 0.000798559 0.00069683 0.000728086 0.000768082 0.000703184 0.000740635 0.000845046 0.000730879 0.000720895 0.000673568 0.000794373 0.00072472 0.000836796 0.000817331 0.000919062');
INSERT INTO "cells" VALUES(11,'','','bruck','all_gather','float','none',-1,16384,0,'bruck',7.51196250000000067051e-04,NULL,NULL,1.63579091349297864321e-02,0,'0.001022308 0.000673967 0.0006791015 0.000741225 0.0005854995 0.0006356735 0.0005776645 0.0007712385 0.000763752 0.001186696 0.001113465 0.0009025055 0.00137776 0.001148184 0.001126435 0.0007547965 0.0006411355 0.000690909 0.000778647 0.000997459 0.000662354 0.000711827 0.0006907085 0.000786648 0.0009638345 0.0007823745 0.00071091 0.00075007 0.0007191825 0.000897343 0.0007304305 0.0006708005 0.000805848 0.0005835275 0.000970251 0.000880437 0.0007644745 0.000694277 0.0006930455 0.000921496 0.0007897 0.0006859475 0.000628246 0.000657833 0.000679159 0.0009786345 0.000901297 0.0007716385 0.0006502795 0.0006761325 0.000691863 0.0006289715 0.000903474 0.000725014 0.000893793 0.0007523225 0.000580303 0.0007972605 0.0009190705 0.0006955385');
INSERT INTO "cells" VALUES(11,'','','ring','all_gather','float','none',-1,16384,0,'ring',1.03167299999999987833e-03,NULL,NULL,1.19107507902213218681e-02,0,'0.000884498 0.00084583 0.001084718 0.000891 0.0008209835 0.00091338 0.001117398 0.001025971 0.000966796 0.001256442 0.001432593 0.001031673 0.001251851 0.001383975 0.00181128');
INSERT INTO "cells" VALUES(11,'','','neighbor','all_gather','float','none',-1,16384,0,'neighbor',0.00073079525,NULL,NULL,1.68145592079313593858e-02,0,'0.0007706095 0.000778663 0.0007230185 0.0007529365 0.000732702 0.0006777035 0.0006903745 0.000723595 0.000782162 0.001190076 0.0009803655 0.001029737 0.001116374 0.0007984505 0.001166989 0.0007492385 0.000739679 0.0007078485 0.000635276 0.000772748 0.000684952 0.000685438 0.000668232 0.0007603565 0.0005447305 0.000671275 0.0006743 0.0006518815 0.000632502 0.000580553 0.000694948 0.0007218735 0.0007361965 0.0006757335 0.000665333 0.0007288885 0.0006921675 0.000685423 0.000861297 0.0006497045 0.0007479795 0.000666953 0.0007073495 0.0005865715 0.000852932 0.0006483715 0.00069931 0.000692014 0.000745565 0.000736029 0.0009017395 0.000875929 0.0007468345 0.0008302945 0.0007880885 0.000859962 0.0008680515 0.0008050765 0.0006291175 0.0007980865');
INSERT INTO "cells" VALUES(15,'per-host','inside','node0','all_reduce','float','sum',-1,65536,0,'default',1.39399999999484380808e-06,NULL,NULL,0.0,0,'1.394e-06 1.394e-06');
INSERT INTO "cells" VALUES(15,'per-host','inside','node1','all_reduce','float','sum',-1,65536,0,'default',1.39949999997807106311e-06,NULL,NULL,0.0,0,'1.4e-06 1.399e-06');
INSERT INTO "cells" VALUES(15,'per-host','inside','node2','all_reduce','float','sum',-1,65536,0,'default',1.39450000000845841796e-06,NULL,NULL,0.0,0,'1.394e-06 1.395e-06');
INSERT INTO "cells" VALUES(15,'per-host','inside','node3','all_reduce','float','sum',-1,65536,0,'default',1.3905000000070943944e-06,NULL,NULL,0.0,0,'1.39e-06 1.391e-06');
INSERT INTO "cells" VALUES(15,'whole','one','all','all_reduce','float','sum',-1,8,0,'default',0.000809044,7.19428999999999945272e-04,0.0008732675,1.48323206154424249887e-05,0,'0.0008545065 0.0007686885 0.0008732675 0.0008493995 0.0008559025 0.0007673695 0.000726276 0.000719429');
INSERT INTO "cells" VALUES(15,'whole','one','all','all_reduce','float','sum',-1,65536,0,'default',0.001800502,0.001436156,0.002284934,5.45981065280682908991e-02,0,'0.002012186 0.002054359 0.001800502 0.001594085 0.001436156 0.00146711 0.001726631 0.002284934 0.001981845');
INSERT INTO "cells" VALUES(15,'whole','two','all','broadcast','float','none',-1,65536,0,'default',0.003045767,0.002851066,0.003229665,2.15170759943226139188e-02,0,'0.003023204 0.003229665 0.003156524 0.003045767 0.002851066 0.002950616 0.003143568');
INSERT INTO "cells" VALUES(15,'whole','two','all','broadcast','float','none',-1,65536,1,'default',0.003124308,0.002990065,0.003264722,2.0976164961969176459e-02,0,'0.003072655 0.003264722 0.00324488 0.003157792 0.002990065 0.003142638 0.003077062 0.003101921 0.003206113 0.003105978');
INSERT INTO "cells" VALUES(16,'whole','again','all','all_reduce','float','sum',-1,65536,0,'default',0.001764408,NULL,NULL,5.57150046927921416273e-02,0,'0.001314612 0.002137593 0.001820757 0.001764408 0.00147508 0.00170035 0.001832585 0.001059433 0.001036664 0.002637794 0.005002459');
INSERT INTO "cells" VALUES(17,'per-host','inside','node0','all_reduce','float','sum',-1,65536,0,'default',1.39849999998553631286e-06,NULL,NULL,0.0,0,'1.398e-06 1.399e-06');
INSERT INTO "cells" VALUES(17,'per-host','inside','node1','all_reduce','float','sum',-1,65536,0,'default',1.39849999997165852505e-06,NULL,NULL,0.0,16384,'1.397e-06 1.4e-06');
INSERT INTO "cells" VALUES(17,'per-host','inside','node2','all_reduce','float','sum',-1,65536,0,'default',1.39499999997350077052e-06,NULL,NULL,0.0,0,'1.395e-06 1.395e-06');
INSERT INTO "cells" VALUES(17,'per-host','inside','node3','all_reduce','float','sum',-1,65536,0,'default',1.39300000001618684564e-06,NULL,NULL,0.0,0,'1.393e-06 1.393e-06');
INSERT INTO "cells" VALUES(17,'whole','one','all','all_reduce','float','sum',-1,8,0,'default',0.00301499,NULL,NULL,3.98011270352472106958e-06,0,'0.000500519 0.00301499 0.007822249');
INSERT INTO "cells" VALUES(17,'whole','one','all','all_reduce','float','sum',-1,65536,0,'default',0.0115051,NULL,NULL,8.5443846641924010854e-03,0,'0.01254981 0.01046039');
INSERT INTO "cells" VALUES(17,'whole','two','all','broadcast','float','none',-1,65536,0,'default',0.005040016,NULL,NULL,1.30031333233862761433e-02,0,'0.005040016');
INSERT INTO "cells" VALUES(17,'whole','two','all','broadcast','float','none',-1,65536,1,'default',0.0031329135,0.003087932,0.005904065,2.09185475436841766816e-02,0,'0.003087932 0.005904065 0.003113518 0.003112106 0.003152309 0.003199282');
INSERT INTO "cells" VALUES(19,'per-host','inside','sandbox','all_reduce','float','sum',-1,65536,0,'default',2.26459999999872874099e-05,NULL,NULL,2.89393270334879382232e+00,0,'2.3206e-05 2.2086e-05');
INSERT INTO "cells" VALUES(19,'whole','one','all','all_reduce','float','sum',-1,8,0,'default',5.67000000006867566071e-07,NULL,NULL,1.4109347442509882417e-02,0,'5.67e-07');
INSERT INTO "cells" VALUES(19,'whole','one','all','all_reduce','float','sum',-1,65536,0,'default',2.12199999999884703072e-05,NULL,NULL,3.08840716305540086139e+00,0,'2.122e-05');
INSERT INTO "cells" VALUES(19,'whole','two','all','broadcast','float','none',-1,65536,0,'default',3.82850000002488144446e-06,NULL,NULL,1.71179313045772687473e+01,0,'3.7515e-06 3.8285e-06 3.867e-06');
INSERT INTO "cells" VALUES(19,'whole','two','all','broadcast','float','none',-1,65536,1,'default',3.82699999995628203919e-06,NULL,NULL,1.71246407109351075348e+01,0,'3.827e-06');
CREATE TABLE criteria(
  run INTEGER NOT NULL REFERENCES runs(id), stage TEXT NOT NULL, cell TEXT NOT NULL, scope TEXT NOT NULL,
  nbytes INTEGER NOT NULL, in_place INTEGER NOT NULL, criterion TEXT NOT NULL, outcome TEXT NOT NULL,
  found TEXT NOT NULL, wanted TEXT NOT NULL, source TEXT NOT NULL, reason TEXT NOT NULL, hosts TEXT NOT NULL);
INSERT INTO "criteria" VALUES(12,'pairs','','all',0,0,'pairs','PASS','PASS: all 4 within 0.77 of the median (9 rounds, noise 5.7 %)','','','','');
INSERT INTO "criteria" VALUES(13,'pairs','','all',0,0,'pairs','FAIL','FAIL: node2: 3 of 3 partners slow (0.09 +- 0.00 of the median), 3 of 3 confirmations, transmit side, 0.09 alone','','','','');
INSERT INTO "criteria" VALUES(13,'pairs','','node2',0,0,'pairs','FAIL','node2: 3 of 3 partners slow (0.09 +- 0.00 of the median), 3 of 3 confirmations, transmit side, 0.09 alone','','','','node2');
INSERT INTO "criteria" VALUES(14,'whole','all-reduce','all',0,0,'completed','INCONCLUSIVE','','','','not measured: no time was left, or the run was cut off','');
INSERT INTO "criteria" VALUES(14,'doctor','','all',0,0,'platform','PASS','host memory','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','version.kernel','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','version.system','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','version.busbar','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','version.libnccl','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','version.libmpi','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','version.cuda','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','rdma','all',0,0,'doctor','SKIP','','','','no InfiniBand, RoCE or EFA device in /sys/class/infiniband on node[0-3]','');
INSERT INTO "criteria" VALUES(14,'doctor','net.bootstrap','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','net.state','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','net.mtu','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','net.speed','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','net.port_range','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','net.somaxconn','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','locality','all',0,0,'doctor','SKIP','','','','no GPU and no active RDMA device on the PCI bus on node[0-3]','');
INSERT INTO "criteria" VALUES(14,'doctor','host.memlock','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.nofile','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.stack','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.shm','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.stale_segments','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.remove_ipc','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.memory','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.swap','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.disk','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.cpu','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.governor','all',0,0,'doctor','SKIP','','','','clock rates are not set here (no cpufreq) on node[0-3]','');
INSERT INTO "criteria" VALUES(14,'doctor','host.numa_balancing','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.huge_pages','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.clocksource','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.load','all',0,0,'doctor','WARN','20.8 on 2 CPUs, more than half of the CPUs were busy over the last minute: another job, or ours just before? on node[0-3]','','','do: top; measure when it is gone','node0
node1
node2
node3');
INSERT INTO "criteria" VALUES(14,'doctor','host.container','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','host.iommu','all',0,0,'doctor','SKIP','','','','no GPU and no RDMA device for which it would matter on node[0-3]','');
INSERT INTO "criteria" VALUES(14,'doctor','plugin.net','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','plugin.tuner','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','plugin.profiler','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','kernel.log','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','gpu.count','all',0,0,'doctor','SKIP','','','','no NVIDIA driver here (or the container was not given it) on node[0-3]','');
INSERT INTO "criteria" VALUES(14,'doctor','host.clock_offset','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','rank.shared_cpus','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','rank.cpus','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'doctor','env.value','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(14,'pairs','','all',0,0,'pairs','FAIL','FAIL: node2: 3 of 3 partners slow (0.10 +- 0.00 of the median), 3 of 3 confirmations, 0.10 alone','','','','');
INSERT INTO "criteria" VALUES(14,'pairs','','node2',0,0,'pairs','FAIL','node2: 3 of 3 partners slow (0.10 +- 0.00 of the median), 3 of 3 confirmations, 0.10 alone','','','','node2');
INSERT INTO "criteria" VALUES(14,'doctor','','all',0,0,'counters','PASS','no error counter moved on 4 hosts','unmoved','','','');
INSERT INTO "criteria" VALUES(15,'per-host','inside','all',0,0,'completed','PASS','4 rows measured','','','','');
INSERT INTO "criteria" VALUES(15,'whole','one','all',0,0,'completed','PASS','2 rows measured','','','','');
INSERT INTO "criteria" VALUES(15,'whole','two','all',0,0,'completed','PASS','2 rows measured','','','','');
INSERT INTO "criteria" VALUES(15,'doctor','','all',0,0,'platform','PASS','host memory','','','','');
INSERT INTO "criteria" VALUES(15,'doctor','','all',0,0,'counters','PASS','no error counter moved on 4 hosts','unmoved','','','');
INSERT INTO "criteria" VALUES(15,'per-host','inside','node0',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(15,'per-host','inside','node1',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(15,'per-host','inside','node2',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(15,'per-host','inside','node3',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(15,'whole','one','all',8,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(15,'whole','one','all',8,0,'latency','PASS','809 us [719.4 us, 873.3 us]','<= 1 s','the plan','','');
INSERT INTO "criteria" VALUES(15,'whole','one','all',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(15,'whole','one','all',65536,0,'latency','PASS','1.801 ms [1.436 ms, 2.285 ms]','<= 1 s','the plan','','');
INSERT INTO "criteria" VALUES(15,'whole','two','all',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(15,'whole','two','all',65536,1,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(16,'whole','again','all',0,0,'completed','PASS','1 rows measured','','','','');
INSERT INTO "criteria" VALUES(16,'doctor','','all',0,0,'platform','PASS','host memory','','','','');
INSERT INTO "criteria" VALUES(16,'doctor','','all',0,0,'counters','PASS','no error counter moved on 4 hosts','unmoved','','','');
INSERT INTO "criteria" VALUES(16,'whole','again','all',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(16,'whole','again','all',65536,0,'latency','INCONCLUSIVE','1.849 ms','<= 1 ms','the plan','3 of 3 repetitions, the first is number 1: measured too briefly for an interval; its time was over before it was precise, raise cell-time or max-time','');
INSERT INTO "criteria" VALUES(16,'whole','again','all',65536,0,'dips','SKIP','','','','fewer than 8 epochs tell no spread: raise cell-time and max-time','');
INSERT INTO "criteria" VALUES(16,'whole','again','all',65536,0,'drift','SKIP','','<= 1.0 %','the plan','3 repetitions are too few to tell a drift, 9 needed','');
INSERT INTO "criteria" VALUES(17,'per-host','inside','all',0,0,'completed','PASS','4 rows measured','','','','');
INSERT INTO "criteria" VALUES(17,'whole','one','all',0,0,'completed','PASS','2 rows measured','','','','');
INSERT INTO "criteria" VALUES(17,'whole','two','all',0,0,'completed','PASS','2 rows measured','','','','');
INSERT INTO "criteria" VALUES(17,'doctor','','all',0,0,'platform','PASS','host memory','','','','');
INSERT INTO "criteria" VALUES(17,'doctor','','all',0,0,'counters','PASS','no error counter moved on 4 hosts','unmoved','','','');
INSERT INTO "criteria" VALUES(17,'per-host','inside','node0',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(17,'per-host','inside','node1',65536,0,'wrong','FAIL','16384 wrong elements','0','','rank 1 on node1: out-of-place recv (timed loop): 16384 elements wrong, first 0 last 16383, got 0 want 4574712, suspected: missing contribution of rank 0','node1');
INSERT INTO "criteria" VALUES(17,'per-host','inside','node2',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(17,'per-host','inside','node3',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(17,'whole','one','all',8,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(17,'whole','one','all',8,0,'latency','INCONCLUSIVE','3.015 ms','<= 1 s','the plan','measured too briefly for an interval; its time was over before it was precise, raise cell-time or max-time','');
INSERT INTO "criteria" VALUES(17,'whole','one','all',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(17,'whole','one','all',65536,0,'latency','INCONCLUSIVE','11.51 ms','<= 1 s','the plan','measured too briefly for an interval; its time was over before it was precise, raise cell-time or max-time','');
INSERT INTO "criteria" VALUES(17,'whole','two','all',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(17,'whole','two','all',65536,1,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(18,'per-host','inside','all',0,0,'completed','FAIL','PROCESS_STOPPED (exit code 4)','the stage ends by itself','','rank 1 on sandbox (pid 1925) is stopped (state T); 1 rank waits for it in all_reduce #8, 64 KiB float sum (/scratch/hang-894959617.json)','sandbox');
INSERT INTO "criteria" VALUES(18,'whole','one','all',0,0,'completed','FAIL','PROCESS_STOPPED (exit code 4)','the stage ends by itself','','rank 1 on sandbox (pid 1953) is stopped (state T); 1 rank waits for it in all_reduce #8, 8 B float sum (/scratch/hang-893648897.json)','sandbox');
INSERT INTO "criteria" VALUES(18,'whole','two','all',0,0,'completed','FAIL','PROCESS_STOPPED (exit code 4)','the stage ends by itself','','rank 1 on sandbox (pid 1982) is stopped (state T); 1 rank waits for it in broadcast #8, 64 KiB float, root 0 (/scratch/hang-895483905.json)','sandbox');
INSERT INTO "criteria" VALUES(18,'per-host','inside','sandbox',0,0,'completed','INCONCLUSIVE','1 of 1 hosts','','','not measured: the stage ended with PROCESS_STOPPED','');
INSERT INTO "criteria" VALUES(18,'whole','one','all',0,0,'completed','INCONCLUSIVE','','','','not measured: the stage ended with PROCESS_STOPPED','');
INSERT INTO "criteria" VALUES(18,'whole','two','all',0,0,'completed','INCONCLUSIVE','','','','not measured: the stage ended with PROCESS_STOPPED','');
INSERT INTO "criteria" VALUES(18,'doctor','','all',0,0,'platform','PASS','host memory','','','','');
INSERT INTO "criteria" VALUES(18,'doctor','','all',0,0,'counters','SKIP','','','','error counters were not read before and after the run','');
INSERT INTO "criteria" VALUES(19,'per-host','inside','all',0,0,'completed','FAIL','PROCESS_STOPPED (exit code 4)','the stage ends by itself','','rank 1 on sandbox (pid 1925) is stopped (state T); 1 rank waits for it in all_reduce #8, 64 KiB float sum (/scratch/hang-894959617.json)','sandbox');
INSERT INTO "criteria" VALUES(19,'whole','one','all',0,0,'completed','FAIL','PROCESS_STOPPED (exit code 4)','the stage ends by itself','','rank 1 on sandbox (pid 1953) is stopped (state T); 1 rank waits for it in all_reduce #8, 8 B float sum (/scratch/hang-893648897.json)','sandbox');
INSERT INTO "criteria" VALUES(19,'whole','two','all',0,0,'completed','FAIL','PROCESS_STOPPED (exit code 4)','the stage ends by itself','','rank 1 on sandbox (pid 1982) is stopped (state T); 1 rank waits for it in broadcast #8, 64 KiB float, root 0 (/scratch/hang-895483905.json)','sandbox');
INSERT INTO "criteria" VALUES(19,'per-host','inside','all',0,0,'completed','PASS','1 rows measured','','','','');
INSERT INTO "criteria" VALUES(19,'whole','one','all',0,0,'completed','PASS','2 rows measured','','','','');
INSERT INTO "criteria" VALUES(19,'whole','two','all',0,0,'completed','PASS','2 rows measured','','','','');
INSERT INTO "criteria" VALUES(19,'doctor','','all',0,0,'platform','PASS','host memory','','','','');
INSERT INTO "criteria" VALUES(19,'doctor','','all',0,0,'counters','PASS','no error counter moved on 1 host','unmoved','','','');
INSERT INTO "criteria" VALUES(19,'per-host','inside','sandbox',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(19,'whole','one','all',8,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(19,'whole','one','all',8,0,'latency','INCONCLUSIVE','0.567 us','<= 1 s','the plan','measured too briefly for an interval; its time was over before it was precise, raise cell-time or max-time','');
INSERT INTO "criteria" VALUES(19,'whole','one','all',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(19,'whole','one','all',65536,0,'latency','INCONCLUSIVE','21.22 us','<= 1 s','the plan','measured too briefly for an interval; its time was over before it was precise, raise cell-time or max-time','');
INSERT INTO "criteria" VALUES(19,'whole','two','all',65536,0,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(19,'whole','two','all',65536,1,'wrong','PASS','0','0','','','');
INSERT INTO "criteria" VALUES(20,'per-host','inside','all',0,0,'completed','FAIL','CRASH (exit code 1)','the stage ends by itself','','exit code 1','');
INSERT INTO "criteria" VALUES(20,'whole','one','all',0,0,'completed','FAIL','CRASH (exit code 1)','the stage ends by itself','','exit code 1','');
INSERT INTO "criteria" VALUES(20,'whole','two','all',0,0,'completed','FAIL','CRASH (exit code 1)','the stage ends by itself','','exit code 1','');
INSERT INTO "criteria" VALUES(20,'whole','one','all',0,0,'completed','INCONCLUSIVE','','','','not measured: the stage ended with CRASH','');
INSERT INTO "criteria" VALUES(20,'whole','two','all',0,0,'completed','INCONCLUSIVE','','','','not measured: the stage ended with CRASH','');
INSERT INTO "criteria" VALUES(20,'doctor','','all',0,0,'platform','PASS','host memory','','','','');
INSERT INTO "criteria" VALUES(20,'doctor','','all',0,0,'counters','SKIP','','','','error counters were not read before and after the run','');
INSERT INTO "criteria" VALUES(21,'doctor','version.kernel','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','version.system','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','version.busbar','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','version.nvidia_driver','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','version.mlx5_core','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','version.firmware','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','version.libnccl','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','rdma.devices','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','rdma.state','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','rdma.rate','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','rdma.link_layer','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','rdma.uverbs','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','rdma.pkey','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','rdma.gid','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','rdma.active_mtu','all',0,0,'doctor','SKIP','','','','libibverbs.so.1 is not here, or may not open the devices on node0','');
INSERT INTO "criteria" VALUES(21,'doctor','rdma.mtu','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','net.bootstrap','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','net.state','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','net.mtu','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','net.speed','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','net.port_range','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','net.somaxconn','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','net.ras_port','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','locality.gpus','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','locality.nics','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','locality.rails','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.memlock','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.nofile','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.stack','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.shm','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.stale_segments','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.remove_ipc','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.memory','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.swap','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.disk','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.cpu','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.governor','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.numa_balancing','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.huge_pages','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.clocksource','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.load','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.container','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.iommu','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','host.acs','all',0,0,'doctor','SKIP','','','','only root may read the bridges'' configuration: run busbar doctor --local as root once, or look with lspci -vvv on node0','');
INSERT INTO "criteria" VALUES(21,'doctor','plugin.net','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','plugin.tuner','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','plugin.profiler','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','plugin.gdr','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','plugin.gdrdrv','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','kernel.log','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','rank.cpus','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','env.value','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(21,'doctor','env.hca','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','version.kernel','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','version.system','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','version.busbar','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','version.nvidia_driver','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','version.mlx5_core','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','version.firmware','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','version.libnccl','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','rdma.devices','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','rdma.state','all',0,0,'doctor','FAIL','mlx5_3: 1: DOWN, 2: Polling, the port is down, others of its kind are up on node7','','','do: cable, transceiver or switch port: swap them with a neighbour''s and see what the fault follows','node7');
INSERT INTO "criteria" VALUES(22,'doctor','rdma.rate','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','rdma.link_layer','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','rdma.uverbs','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','rdma.pkey','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','rdma.gid','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','rdma.active_mtu','all',0,0,'doctor','SKIP','','','','libibverbs.so.1 is not here, or may not open the devices on node7','');
INSERT INTO "criteria" VALUES(22,'doctor','rdma.mtu','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','net.bootstrap','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','net.state','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','net.mtu','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','net.speed','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','net.port_range','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','net.somaxconn','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','net.ras_port','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','locality.gpus','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','locality.nics','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','locality.rails','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.memlock','all',0,0,'doctor','FAIL','64 KiB, RDMA registers (locks) its buffers, and the limit of locked memory is low on node7','','','do: memlock unlimited in /etc/security/limits.d for ssh, LimitMEMLOCK=infinity for slurmd, --ulimit memlock=-1 for a container; then log in or restart the daemon again','node7');
INSERT INTO "criteria" VALUES(22,'doctor','host.nofile','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.stack','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.shm','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.stale_segments','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.remove_ipc','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.memory','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.swap','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.disk','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.cpu','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.governor','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.numa_balancing','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.huge_pages','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.clocksource','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.load','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.container','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.iommu','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','host.acs','all',0,0,'doctor','SKIP','','','','only root may read the bridges'' configuration: run busbar doctor --local as root once, or look with lspci -vvv on node7','');
INSERT INTO "criteria" VALUES(22,'doctor','plugin.net','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','plugin.tuner','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','plugin.profiler','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','plugin.gdr','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','plugin.gdrdrv','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','kernel.log','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','rank.cpus','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','env.value','all',0,0,'doctor','PASS','','','','','');
INSERT INTO "criteria" VALUES(22,'doctor','env.hca','all',0,0,'doctor','PASS','','','','','');
CREATE TABLE room(bytes BLOB);
CREATE TABLE runs(
  id INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT NOT NULL, time TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL,
  command TEXT NOT NULL, version TEXT NOT NULL, backend TEXT NOT NULL, library TEXT NOT NULL, platform TEXT NOT NULL,
  estimand TEXT NOT NULL, hosts TEXT NOT NULL, nranks INTEGER NOT NULL, environment TEXT NOT NULL,
  outcome TEXT NOT NULL, exit_code INTEGER NOT NULL);
INSERT INTO "runs" VALUES(1,'40e05d2bdb78f8f0541e77c7dd1a8748','2026-07-04 10:00:00','perf','all_reduce_perf','/opt/busbar/all_reduce_perf --backend mpi -b 8 -e 1M -f 32 -n 5 -J run_plain.json --csv run_plain.csv --history history.db','0.1.0','mpi','Open MPI 4.1.4','host memory','','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','PASS',0);
INSERT INTO "runs" VALUES(2,'9a63294cf40610cb0d5821eebc10d23b','2026-07-04 10:00:03','perf','all_gather_perf','/opt/busbar/all_gather_perf --backend mpi -b 1K -e 64K -f 8 -n 8 -I 1 -K 2 -S 1 -M 1 -C 1 -a 3 -J run_iters.json --csv run_iters.csv --history history.db','0.1.0','mpi','Open MPI 4.1.4','host memory','','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','PASS',0);
INSERT INTO "runs" VALUES(3,'ffde91985ac1c5f46b026ffd8df3ad12','2026-07-04 10:00:06','perf','reduce_perf','/opt/busbar/reduce_perf --backend mpi --sizes 4K -n 2 -d float,int32,bfloat16 -o sum,max,avg -r all -J run_types.json --csv run_types.csv --history history.db','0.1.0','mpi','Open MPI 4.1.4','host memory','','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','PASS',0);
INSERT INTO "runs" VALUES(4,'712566adc7a02c0a03a54712bb73cc48','2026-07-04 10:00:08','perf','alltoall_perf','/opt/busbar/alltoall_perf --backend mpi --sizes 1K,64K -n 3 -J run_no_in_place.json --csv run_no_in_place.csv --history history.db','0.1.0','mpi','Open MPI 4.1.4','host memory','','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','PASS',0);
INSERT INTO "runs" VALUES(5,'23139792a81a013e94f5e5107d2e1156','2026-07-04 10:00:10','perf','alltoallv_perf','/opt/busbar/alltoallv_perf --backend mpi --sizes 1K,64K -n 3 --placement out -J run_alltoallv.json --csv run_alltoallv.csv --history history.db','0.1.0','mpi','Open MPI 4.1.4','host memory','','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','PASS',0);
INSERT INTO "runs" VALUES(6,'d85ce0a66a324afad07f1067634c066f','2026-07-04 10:00:12','perf','all_reduce_perf','/opt/busbar/all_reduce_perf --backend mpi --sizes 1K,64K -n 3 --show-algo -J run_algo.json --csv run_algo.csv --history history.db','0.1.0','mpi','Open MPI 4.1.4','host memory','','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','PASS',0);
INSERT INTO "runs" VALUES(7,'0608465cd42c2b7eefcf44d691e3c01b','2026-07-04 10:00:15','perf','all_reduce_perf','/opt/busbar/all_reduce_perf --backend mpi --sizes 1K,64K --stat --max-time 2 --seed 7 --per-rank --skew --epochs 8 -J run_stat_1.json --csv run_stat_1.csv --history history.db','0.1.0','mpi','Open MPI 4.1.4','host memory','isolated, the slowest rank''s own time','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','PASS',0);
INSERT INTO "runs" VALUES(8,'25a9dbe4e03adeb87de081f9dbe1ba0b','2026-07-04 10:00:19','perf','all_reduce_perf','/opt/busbar/all_reduce_perf --backend mpi --sizes 1K,64K --stat --max-time 2 --seed 8 --per-rank --skew --epochs 8 -J run_stat_2.json --csv run_stat_2.csv --history history.db','0.1.0','mpi','Open MPI 4.1.4','host memory','isolated, the slowest rank''s own time','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','PASS',0);
INSERT INTO "runs" VALUES(9,'cbe5f2e1e284aae10206cbe595e1e751','2026-07-04 10:00:25','perf','all_reduce_perf','/opt/busbar/all_reduce_perf --backend mpi --sizes 1K,64K --stat --max-time 2 --seed 9 --epochs 8 -J run_stat_3.json --csv run_stat_3.csv --history history.db','0.1.0','mpi','Open MPI 4.1.4','host memory','isolated, the slowest rank''s own time','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','PASS',0);
INSERT INTO "runs" VALUES(10,'2c339ed512924c0d87bb75883a92b67a','2026-07-04 10:00:30','perf','broadcast_perf','/opt/busbar/broadcast_perf --backend mpi --sizes 1K --stat --max-time 1 --seed 9 --epochs 8 --placement in -J run_stat_other.json --samples samples.csv --csv run_stat_other.csv --history history.db','0.1.0','mpi','Open MPI 4.1.4','host memory','isolated, the slowest rank''s own time','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','PASS',0);
INSERT INTO "runs" VALUES(11,'4e6aa0750445895ef08d73a92e806a21','2026-07-04 10:00:53','compare','busbar compare','compare all_reduce,all_gather --backend mpi --sizes 64,16K --max-time 8 --seed 5 --vary ompi.algorithm=2,4,5 -J compare.json --csv compare.csv --history history.db','0.1.0','mpi','Open MPI 4.1.4','host memory','isolated, the slowest rank''s own time','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_coll_tuned_use_dynamic_rules=1
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','PASS',0);
INSERT INTO "runs" VALUES(12,'','2026-07-04 10:01:30','locate','','locate --backend mpi -b 512K --repetitions 5 --seed 7 --no-rank-probes -J locate_healthy.json --history history.db','0.1.0','mpi','Open MPI 4.1.4','','','node0
node1
node2
node3',4,'','PASS',0);
INSERT INTO "runs" VALUES(13,'','2026-07-04 10:01:51','locate','','locate --backend mpi -b 512K --repetitions 5 --seed 7 --no-rank-probes --direction -J locate_slow.json --csv locate_slow.csv --junit locate_slow.xml --history history.db','0.1.0','mpi','Open MPI 4.1.4','','','node0
node1
node2
node3',4,'','FAIL',0);
INSERT INTO "runs" VALUES(14,'','2026-07-04 10:02:07','accept','pairs and nodes','accept pairs.yaml --backend mpi --seed 7 -J accept_slow.json --history history.db','0.1.0','mpi','Open MPI 4.1.4','','','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','FAIL',0);
INSERT INTO "runs" VALUES(15,'','2026-07-04 10:03:06','accept','a recorded acceptance','accept plan.yaml --backend mpi --seed 7 --history history.db -J accept_good.json --junit accept_good.xml --markdown accept_good.md --prometheus accept_good.prom','0.1.0','mpi','Open MPI 4.1.4','','accept','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','PASS',0);
INSERT INTO "runs" VALUES(16,'','2026-07-04 10:03:18','accept','for hours','accept repeated.yaml --backend mpi --seed 7 --history history.db -J accept_repeated.json','0.1.0','mpi','Open MPI 4.1.4','','accept','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','INCONCLUSIVE',0);
INSERT INTO "runs" VALUES(17,'','2026-07-04 10:03:29','accept','a recorded acceptance','accept plan.yaml --backend mpi --seed 7 --history history.db -J accept_wrong.json --inject rank=1,op=10,kind=drop','0.1.0','mpi','Open MPI 4.1.4','','accept','node0
node1
node2
node3',4,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_btl=self,vader,tcp
OMPI_MCA_btl_tcp_if_include=eth0
OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_oversubscribe=0
OMPI_MCA_mpi_yield_when_idle=1
OMPI_MCA_oob_tcp_if_include=eth0
OMPI_MCA_plm=rsh
OMPI_MCA_plm_rsh_agent=/opt/source/scripts/vcluster/agent
OMPI_MCA_pml=ob1
OMPI_MCA_rmaps_base_mapping_policy=node
OMPI_MCA_rmaps_base_oversubscribe=1','FAIL',0);
INSERT INTO "runs" VALUES(18,'','2026-07-04 10:03:38','accept','a recorded acceptance','accept plan.yaml --backend mpi --seed 7 --history history.db --launch mpirun -n {ranks} --oversubscribe {cmd} --ranks 2 -T 2 --inject rank=1,op=8,kind=stop -J accept_launched.json','0.1.0','mpi','Open MPI 4.1.4','','','sandbox',2,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_rmaps_base_oversubscribe=1','FAIL',0);
INSERT INTO "runs" VALUES(19,'','2026-07-04 10:03:38','accept','a recorded acceptance','accept plan.yaml --backend mpi --seed 7 --history history.db --launch mpirun -n {ranks} --oversubscribe {cmd} --ranks 2 --resume accept_launched.json','0.1.0','mpi','Open MPI 4.1.4','','accept','sandbox',2,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_rmaps_base_oversubscribe=1','FAIL',0);
INSERT INTO "runs" VALUES(20,'','2026-07-04 10:04:03','accept','a recorded acceptance','accept plan.yaml --backend mpi --seed 7 --history history.db --launch false -J accept_no_start.json','0.1.0','','','','','',0,'CUDA_HOME=/usr/local/cuda
OMPI_MCA_rmaps_base_oversubscribe=1','FAIL',0);
INSERT INTO "runs" VALUES(21,'','2026-07-04 10:04:03','doctor','','busbar doctor','0.1.0','','','','','node0',0,'','PASS',0);
INSERT INTO "runs" VALUES(22,'','2026-07-04 10:04:03','doctor','','busbar doctor','0.1.0','','','','','node7',0,'','FAIL',0);
CREATE INDEX cells_of_run ON cells(run, collective);
CREATE INDEX criteria_of_run ON criteria(run);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('runs',22);
COMMIT;
